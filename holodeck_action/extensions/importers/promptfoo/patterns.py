"""Translates JavaScript's regular expressions to Python's, for the constructs that can be translated exactly.

The grammar of these constructs, for patterns without flags, which is also in docs/importing.md:

    pattern     = sequence { "|" sequence }
    sequence    = { assertion | atom [ quantifier ] }
    assertion   = "^" | "$" | "\\b" | "\\B" | ( "(?=" | "(?!" | "(?<=" | "(?<!" ) pattern ")"
    atom        = "." | literal | escape | set | ( "(" | "(?:" | "(?<" name ">" ) pattern ")" | "\\" number
    quantifier  = ( "*" | "+" | "?" | "{" n "}" | "{" n ",}" | "{" n "," m "}" ) [ "?" ]
    set         = "[" [ "^" ] { member [ "-" member ] } "]"
    escape      = "\\" ( "d" | "D" | "w" | "W" | "s" | "S" | "t" | "n" | "v" | "f" | "r" | "0" | punctuation )
                | "\\x" 2 digits | "\\u" 4 digits | "\\c" letter

A lookbehind has a fixed length. A number refers to an earlier group that every match uses. A brace that does
not begin a quantifier is a literal. JavaScript sees a text as UTF-16 units; the translated pattern matches units.

Source: ECMA-262, "Patterns" and its Annex B, "Regular Expressions Patterns".
"""

from __future__ import annotations

import re
import string
import warnings
from collections.abc import Sequence

from holodeck_action.extensions.importers.source import UnfitError
from holodeck_action.text.lazy_patterns import lazy_pattern

SPACES = "\t\n\x0b\x0c\r \xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000\ufeff"
"""The characters that JavaScript regards as white space."""
_MAX_DEPTH = 50
"""Most levels of nested groups."""
_MAX_CODE_POINT = 0x10FFFF
_LINE_ENDS = "\n\r\u2028\u2029"
_CONTROLS = {"t": "\t", "n": "\n", "v": "\x0b", "f": "\x0c", "r": "\r"}
_PUNCTUATION = frozenset(string.punctuation + " ") - {"_"}
_SYNTAX = frozenset("^$\\.*+?()[]{}|/")
"""Characters that may be escaped in a pattern with the flag `u`."""
_UNQUOTED = frozenset(" !\"#%&',-/:;<=>@_`~")
"""Punctuation that needs no escape outside of a set."""
_QUANTIFIER = lazy_pattern(r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??")
_LOOKAROUNDS = ("(?=", "(?!", "(?<=", "(?<!")


def python_pattern(pattern: str, *, unicode: bool = False) -> str:
    """Translate a JavaScript pattern without flags, or with the flag `u`.

    Args:
        pattern: the pattern of JavaScript.
        unicode: whether the pattern has the flag `u`. With the flag, the pattern matches strings unchanged; without the
            flag, it matches their `utf16_units`.

    Returns:
        The pattern for Python's `re.search` with `re.ASCII`.

    Raises:
        UnfitError: the pattern is not in the grammar.
    """
    return _translate(_Parser(pattern if unicode else utf16_units(pattern), unicode))


def utf16_units(text: str) -> str:
    """Return a string with one character for each UTF-16 code unit of `text`."""
    data = text.encode("utf-16-le", "surrogatepass")
    return "".join(chr(data[at] | data[at + 1] << 8) for at in range(0, len(data), 2))


def metric_pattern(pattern: str) -> str | None:
    """Translate a JavaScript pattern without flags for the metric `regex`, which matches characters, not UTF-16 units.

    Returns:
        The pattern; None if it might match half of a character beyond U+FFFF, which is two units.

    Raises:
        UnfitError: the pattern is not in the grammar.
    """
    if pattern != utf16_units(pattern):
        return None
    parser = _Parser(pattern, False)
    made = _translate(parser)
    return None if parser.splits else f"(?a){made}" if r"\b" in made else made


def _translate(parser: _Parser) -> str:
    made = parser.parse()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(made, re.ASCII)
    except (re.error, Warning, OverflowError, RecursionError) as error:
        raise _unfit_error(str(error)) from None
    return made


class _Parser:
    """Parses a JavaScript pattern and translates it to Python's syntax."""

    def __init__(self, text: str, unicode: bool) -> None:
        self._text = text
        self._unicode = unicode
        self._at = 0
        self._groups: list[tuple[int, ...]] = []
        """For each numbered group, the parts of the pattern that contain it, outermost first, and its own part."""
        self._closed: set[int] = set()
        self._parts = 0
        self._optional: set[int] = set()
        """Parts of the pattern that some matches do not use."""
        self._referenced: list[int] = []
        """Numbers of the groups that the pattern refers to."""
        self.splits = False
        """Whether the pattern might match one half of a character beyond U+FFFF, or a position between its halves.

        It cannot if no atom matches halves, or if each atom that matches halves matches all of them and is repeated
        without a limit, so that it matches both halves. Two such atoms that must match might match one half each.
        """
        self._half_atoms = 0
        """Number of atoms that match halves of such characters."""
        self._required_half_atoms = 0
        """Number of these atoms that must match at least once."""

    def parse(self) -> str:
        made = self._parse_pattern(())
        if self._at < len(self._text):
            raise _unfit_error("a parenthesis that closes nothing")
        if any(self._optional & set(self._groups[number - 1]) for number in self._referenced):
            raise _unfit_error("a reference to a group that need not match")
        self.splits |= bool(self._referenced and self._half_atoms)
        return made

    def _peek(self, count: int) -> str:
        return self._text[self._at : self._at + count]

    def _parse_pattern(self, enclosing: tuple[int, ...]) -> str:
        if len(enclosing) > _MAX_DEPTH:
            raise _unfit_error("groups nested too deeply")
        part = self._next_part()
        sequences = [self._parse_sequence((*enclosing, part))]
        while self._peek(1) == "|":
            self._at += 1
            sequences.append(self._parse_sequence((*enclosing, part)))
        if len(sequences) > 1:
            self._optional.add(part)
        return "|".join(sequences)

    def _next_part(self) -> int:
        self._parts += 1
        return self._parts

    def _parse_sequence(self, enclosing: tuple[int, ...]) -> str:
        made: list[str] = []
        while self._at < len(self._text) and self._peek(1) not in ("|", ")"):
            part = self._next_part()
            before, is_group = (self._half_atoms, self._required_half_atoms), self._peek(1) == "("
            at_start = made[:1] == [r"\A"] and all(item.startswith((r"\A", "(?=", "(?!")) for item in made)
            atom, repeatable = self._parse_term((*enclosing, part), at_start)
            quantifier = _QUANTIFIER.match(self._text, self._at)
            if quantifier:
                if not repeatable:
                    raise _unfit_error("a quantifier without an atom")
                self._optional.add(part)
                self._at = quantifier.end()
                if _QUANTIFIER.match(self._text, self._at):
                    raise _unfit_error("a quantifier after a quantifier")
                atom = (f"(?:{atom})" if atom == "(?!)" else atom) + quantifier[0]
            if is_group:
                self.splits |= quantifier is not None and self._required_half_atoms > before[1]
            elif self._half_atoms > before[0]:
                self._note_repetition(quantifier[0] if quantifier else "")
            made.append(atom)
        return "".join(made)

    def _note_repetition(self, quantifier: str) -> None:
        self._required_half_atoms += quantifier.startswith("+")
        self.splits |= not quantifier.startswith(("*", "+")) or self._required_half_atoms > 1

    def _note_characters(self, ranges: Sequence[tuple[int, int]]) -> None:
        if _has_halves(ranges):
            self._half_atoms += 1
            self.splits |= _has_halves(_complement(ranges))

    def _parse_term(self, enclosing: tuple[int, ...], at_start: bool) -> tuple[str, bool]:
        """Return the next assertion or atom in Python's syntax, and whether a quantifier may follow it.

        `at_start` is whether the term can only match at the start of the text.
        """
        character = self._peek(1)
        if character == "(":
            return self._parse_group(enclosing, at_start)
        if character == "\\":
            return self._parse_escape()
        self._at += 1
        if character == "^":
            return r"\A", False
        if character == "$":
            return r"\Z", False
        if character == ".":
            self._note_characters(_complement(_ranges_of(_LINE_ENDS)))
            return r"[^\n\r\u2028\u2029]", True
        if character == "[":
            return self._parse_set(), True
        if character in ("*", "+", "?") or _QUANTIFIER.match(self._text, self._at - 1):
            raise _unfit_error("a quantifier without an atom")
        if self._unicode and character in "{}]":
            raise _unfit_error(f"a lone {character}")
        self._note_characters(_ranges_of(character))
        return _literal_text(character), True

    def _parse_group(self, enclosing: tuple[int, ...], at_start: bool) -> tuple[str, bool]:
        for start in _LOOKAROUNDS:
            if self._peek(len(start)) == start:
                self.splits |= not at_start or start.startswith("(?<")
                self._optional.add(enclosing[-1])
                return self._parse_group_body(start, enclosing), False
        if self._peek(3) == "(?:":
            return self._parse_group_body("(?:", enclosing), True
        named = re.compile(r"\(\?<([A-Za-z_][A-Za-z0-9_]*)>").match(self._text, self._at)
        if named is None and self._peek(2) == "(?":
            raise _unfit_error(self._peek(4))
        self._groups.append(enclosing)
        number = len(self._groups)
        taken = named[0] if named else "("
        made = self._parse_group_body(taken, enclosing, f"(?P<{named[1]}>" if named else "(")
        self._closed.add(number)
        return made, True

    def _parse_group_body(self, parsed_text: str, enclosing: tuple[int, ...], start: str = "") -> str:
        self._at += len(parsed_text)
        made = self._parse_pattern(enclosing)
        if self._peek(1) != ")":
            raise _unfit_error("a group that is not closed")
        self._at += 1
        return f"{start or parsed_text}{made})"

    def _parse_escape(self) -> tuple[str, bool]:
        kind = self._text[self._at + 1 : self._at + 2]
        if kind in ("b", "B"):
            self._at += 2
            self.splits |= kind == "B"
            # Before Python 3.14, \B does not match in an empty text.
            return (r"\b" if kind == "b" else r"(?!\b)"), False
        number = re.compile(r"\\([1-9][0-9]*)").match(self._text, self._at)
        if number:
            self._at = number.end()
            if int(number[1]) not in self._closed:
                raise _unfit_error("a reference to an undefined group")
            self._referenced.append(int(number[1]))
            return f"(?:\\{number[1]})", True
        members = self._parse_class_escape()
        self._note_characters(_ranges_of(members) if isinstance(members, str) else members)
        return (_literal_text(members) if isinstance(members, str) else f"[{_ranges_text(members)}]"), True

    def _parse_set(self) -> str:
        negated = self._peek(1) == "^"
        self._at += negated
        found: list[tuple[int, int]] = []
        while self._peek(1) != "]":
            first = self._parse_set_member()
            if self._peek(1) != "-" or self._text[self._at + 1 : self._at + 2] in ("]", ""):
                found += [(ord(first), ord(first))] if isinstance(first, str) else first
                continue
            self._at += 1
            last = self._parse_set_member()
            if not isinstance(first, str) or not isinstance(last, str) or first > last:
                raise _unfit_error("an invalid range")
            found.append((ord(first), ord(last)))
        self._at += 1
        if negated:
            found = _complement(found)
        self._note_characters(found)
        return f"[{_ranges_text(found)}]" if found else "(?!)"

    def _parse_set_member(self) -> str | list[tuple[int, int]]:
        character = self._peek(1)
        if not character:
            raise _unfit_error("a set that is not closed")
        if character != "\\":
            self._at += 1
            return character
        kind = self._text[self._at + 1 : self._at + 2]
        if kind == "b":
            self._at += 2
            return "\x08"
        if kind == "-":
            self._at += 2
            return "-"
        return self._parse_class_escape()

    def _parse_class_escape(self) -> str | list[tuple[int, int]]:
        r"""Return the character that an escape in a set means, or the character ranges of an escape such as `\d`."""
        kind = self._text[self._at + 1 : self._at + 2]
        self._at += 2
        found = _CLASS_RANGES.get(kind.lower())
        if found is not None:
            return found if kind.islower() else _complement(found)
        if kind in _CONTROLS:
            return _CONTROLS[kind]
        if kind == "0" and not self._peek(1).isdigit():
            return "\0"
        if kind == "c" and self._peek(1) in tuple(string.ascii_letters):
            self._at += 1
            return chr(ord(self._text[self._at - 1]) % 32)
        if kind in ("x", "u"):
            digits = self._peek(2 if kind == "x" else 4)
            if re.fullmatch("[0-9a-fA-F]{2}" if kind == "x" else "[0-9a-fA-F]{4}", digits):
                self._at += len(digits)
                made = chr(int(digits, 16))
                if not self._unicode or not "\ud800" <= made <= "\udfff":
                    return made
        elif kind and kind in (_SYNTAX if self._unicode else _PUNCTUATION):
            return kind
        raise _unfit_error(f"\\{kind}")


def _ranges_of(characters: str) -> list[tuple[int, int]]:
    return [(ord(character), ord(character)) for character in characters]


_CLASS_RANGES: dict[str, list[tuple[int, int]]] = {
    "d": [(48, 57)],
    "w": [(48, 57), (65, 90), (95, 95), (97, 122)],
    "s": _ranges_of(SPACES),
}


def _complement(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the code point ranges of all characters outside the given ranges."""
    made: list[tuple[int, int]] = []
    free = 0
    for first, last in sorted(ranges):
        if first > free:
            made.append((free, first - 1))
        free = max(free, last + 1)
    return [*made, (free, _MAX_CODE_POINT)] if free <= _MAX_CODE_POINT else made


def _ranges_text(ranges: Sequence[tuple[int, int]]) -> str:
    return "".join(
        _code_text(first) if first == last else f"{_code_text(first)}-{_code_text(last)}" for first, last in ranges
    )


def _has_halves(ranges: Sequence[tuple[int, int]]) -> bool:
    """Return whether some range contains surrogates or code points beyond U+FFFF."""
    return any(last >= 0xD800 and (first < 0xE000 or last > 0xFFFF) for first, last in ranges)


def _literal_text(character: str) -> str:
    if character in _UNQUOTED or (not character.isascii() and character.isprintable()):
        return character
    return f"\\{character}" if character in _SYNTAX else _code_text(ord(character))


def _code_text(point: int) -> str:
    if chr(point).isascii() and chr(point).isalnum():
        return chr(point)
    return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def _unfit_error(feature: str) -> UnfitError:
    return UnfitError(f"the pattern has JavaScript syntax that is not translated ({feature}); write a code grader")
