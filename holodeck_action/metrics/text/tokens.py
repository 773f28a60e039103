"""The tokenisers of BLEU and METEOR, which return the same tokens as sacreBLEU and NLTK.

Both tokenisers look at most one character to either side of a token boundary, so that pieces between white space can be
processed and cached separately, and few patterns scan the whole text. Rules that depend on the whole text (its first
quote, its final full stop) are handled separately.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

from holodeck_action.metrics.text.porter import WordCache
from holodeck_action.text.lazy_patterns import lazy_pattern

_SYMBOL_13A = lazy_pattern(r"([!-&(-+:-@\[-`{-~/])")
_POINT_AFTER_NON_DIGIT = lazy_pattern(r"([^0-9])([.,])")
_POINT_BEFORE_NON_DIGIT = lazy_pattern(r"([.,])([^0-9])")
_DASH_AFTER_DIGIT = lazy_pattern(r"([0-9])(-)")


# For the pieces without two adjacent points or commas. It begins with a set, for which the engine searches fast.
_SEPARATE_13A = lazy_pattern(r"([!-&(-/:-@\[-`{-~](?:(?<=[^-.,])|(?<=[.,])(?:(?<![0-9].)|(?![0-9]))|(?<=[0-9]-)))")
_POINTS = lazy_pattern("[.,][.,]")


def _split_13a(piece: str) -> tuple[str, ...]:
    if piece.isalnum():
        return (piece,)
    if not _POINTS.search(piece):
        return tuple(filter(None, _SEPARATE_13A.split(piece)))
    spaced = _SYMBOL_13A.sub(r" \1 ", f" {piece} ")
    spaced = _POINT_AFTER_NON_DIGIT.sub(r"\1 \2 ", spaced)
    spaced = _POINT_BEFORE_NON_DIGIT.sub(r" \1 \2", spaced)
    return tuple(_DASH_AFTER_DIGIT.sub(r"\1 \2 ", spaced).split())


_pieces_13a = WordCache(_split_13a)


def tokens_13a(text: str) -> list[str]:
    """Return the case-sensitive tokens of mteval-v13a, like sacreBLEU's tokeniser `13a`."""
    text = text.rstrip().replace("<skipped>", "").replace("-\n", "")
    if "&" in text:
        for entity, character in (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">")):
            text = text.replace(entity, character)
    return list(chain.from_iterable(map(_pieces_13a.__getitem__, text.split())))


class _Rule(NamedTuple):
    """A substitution, which is applied only if the text contains one of the `needed` strings."""

    needed: tuple[str, ...]
    substitute: Callable[[str, str], str]
    replacement: str


def _rule(literal: str, pattern: str, replacement: str, engine: Any = re) -> _Rule:
    return _Rule(tuple(literal.split(" ")), engine.compile(pattern).sub, replacement)


# Listed explicitly, because `re` treats U+001C to U+001F as white space and NLTK's engine does not.
_SPACE = "[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"


@cache
def _opening_rules(ascii_only: bool) -> tuple[_Rule, ...]:
    """Return the first half of the rules of NLTK's `NLTKWordTokenizer`, in order.

    Two patterns use Unicode tables (word characters, digits). Unless the text is ASCII, they run on the `regex` library
    as in NLTK, because its tables are newer than Python's.
    """
    engine: Any = re
    if not ascii_only:
        import regex

        engine = regex
    return (
        _rule("« “ ‘ „ `", "([«“‘„]|`+)", r" \1 "),
        _rule('"', '^"', "``"),
        _rule("``", "(``)", r" \1 "),
        _rule("\" ''", """([ (\\[{<])("|'{2})""", r"\1 `` "),
        _rule("'", r"(?i)(?<!\w)(')(?!(?:re|ve|ll|m|t|s|d|n)\b)(?=\w)", r"\1 ", engine),
        _rule(".", rf"""([^.])(\.)([\])}}>"'»”’ ]*+){_SPACE}*$""", r"\1 \2 \3 "),
        _rule(": ,", r"([:,])([^\d])", r" \1 \2", engine),
        _rule(": ,", "([:,])$", r" \1 "),
        _rule("..", r"\.{2,}", r" \g<0> "),
        _rule("; @ # $ % &", "[;@#$%&]", r" \g<0> "),
        _rule("\u2012 \u2013 \u2014 \u2015", "[\u2012-\u2015]", r" \g<0> "),
        _rule(".", rf"""([^.])(\.)([\])}}>"']*+){_SPACE}*$""", r"\1 \2\3 "),
        _rule("? !", "[?!]", r" \g<0> "),
        _rule("'", "([^'])' ", r"\1 ' "),
        _rule("*", r"\*", r" \g<0> "),
        _rule("] [ ( ) { } < >", r"[\]\[(){}<>]", r" \g<0> "),
        _rule("--", "--", r" -- "),
    )


@cache
def _closing_rules() -> tuple[_Rule, ...]:
    """Return the second half of the rules."""
    return (
        _rule("» ” ’", "([»”’])", r" \1 "),
        _rule("''", "''", " '' "),
        _rule('"', '"', " '' "),
        # Only the rules with an apostrophe depend on the kind of white space.
        _rule("'", f"{_SPACE}+", " "),
        _rule("'", "([^' ])('[sS]|'[mM]|'[dD]|') ", r"\1 \2 "),
        _rule("'", "([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ", r"\1 \2 "),
    )


_CONTRACTIONS = tuple(
    (joined, lazy_pattern(f"(?i){pattern}"))
    for joined, pattern in (
        ("cannot", r"\b(can)(not)\b"),
        ("d'ye", r"\b(d)('ye)\b"),
        ("gimme", r"\b(gim)(me)\b"),
        ("gonna", r"\b(gon)(na)\b"),
        ("gotta", r"\b(got)(ta)\b"),
        ("lemme", r"\b(lem)(me)\b"),
        ("more'n", r"\b(more)('n)\b"),
        ("wanna", r"\b(wan)(na)(?=\s)"),
        ("'tis", r" ('t)(is)\b"),
        ("'twas", r" ('t)(was)\b"),
    )
)


def _apply(rules: tuple[_Rule, ...], text: str) -> str:
    for needed, substitute, replacement in rules:
        for part in needed:
            if part in text:
                text = substitute(replacement, text)
                break
    return text


def _split_text(text: str) -> list[str]:
    """Return the tokens of a whole text, by applying NLTK's sequence of substitutions."""
    plain = text.isascii()
    text = _apply(_closing_rules(), f" {_apply(_opening_rules(plain), text)} ")
    lower = text.lower()
    for joined, contraction in _CONTRACTIONS:
        # In other texts further letters fold to these (a dotted I, a long s), so the pattern is always applied.
        if joined in lower or not plain:
            text = contraction.sub(r" \1 \2 ", text)
    return text.split()


# Pieces in which two rules meet: quotes, adjacent colons or commas, contractions.
_MEETING_RULES = lazy_pattern("""'|"|::|:,|,:|,,|cannot|gimme|gonna|gotta|lemme|wanna""")
_SEPARATE_TREEBANK = lazy_pattern(
    r"([!#-&(-*,\-.:;<>?@\[\]`{}](?:(?<=[^-.,:`])|(?<=[,:])(?![0-9])|(?<=`)`?|(?<=\.)\.+|(?<=-)-))"
)


def _split_piece(piece: str) -> tuple[str, ...]:
    """Return the tokens of a piece that follows a space and does not end the text."""
    if piece.isascii() and not _MEETING_RULES.search(piece.lower()):
        return tuple(filter(None, _SEPARATE_TREEBANK.split(piece)))
    # A word is appended, so that the rules for the end of a text do not apply.
    return tuple(_split_text(f" {piece} x")[:-1])


_treebank_pieces = WordCache(_split_piece)

# A quote next to white space other than a space; separators that the engines treat differently.
_NEEDS_WHOLE = lazy_pattern("""[^\\S ](?:"|'')|'[^\\S ]|[\x1c-\x1f]""")


def _end_length(pieces: list[str]) -> int:
    """Return the number of pieces at the end that the rules for a final full stop or apostrophe can affect.

    These are the last piece with a letter or digit, and all after it; 0 if they have neither full stop nor apostrophe.
    """
    sensitive = False
    for length, piece in enumerate(reversed(pieces), start=1):
        sensitive = sensitive or "." in piece or "'" in piece
        if any(map(str.isalnum, piece)):
            return length if sensitive else 0
    return len(pieces)


def treebank_tokens(text: str) -> list[str]:
    """Return the tokens of NLTK's `word_tokenize(text, preserve_line=True)`.

    This is `word_tokenize` without the sentence splitter, whose trained model is not part of any package. A full stop
    inside the text stays with its word ("end. Next" gives `end.`); the last one is a separate token.
    """
    # Spaces are the only white space in printable text.
    if text[:1] in ("'", '"') or (not text.isprintable() and _NEEDS_WHOLE.search(text)):
        return _split_text(text)
    pieces = text.split()
    end = _end_length(pieces)
    tokens = list(chain.from_iterable(map(_treebank_pieces.__getitem__, pieces[: len(pieces) - end])))
    if not end:
        return tokens
    word = pieces[-1]
    if end == 1 and word[-1] == "." and word[:-1].isalpha() and word.isascii():
        return [*tokens, *_treebank_pieces[word[:-1]], "."]
    head = text.rsplit(None, end)[0] if end < len(pieces) else ""
    return tokens + _split_text(f" {text[len(head) :].lstrip()}")
