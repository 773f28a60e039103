"""Recognises headings in lines without Markdown marks, by the document's domain; finds their kind, number and rank.

`structure` reads Markdown headings; this module reads the lines that begin the parts of statutes, contracts, papers and
manuals. A line is a heading only if it is unlikely to be a sentence: after a name such as `Part` and a number, it must
end or continue with a dash, a colon, a full stop or a capital letter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct

from holodeck_action.text.lazy_patterns import lazy_pattern

Domain = Literal["none", "us_legislative", "au_legislative", "academic", "technical", "legal_contract"]

_LONGEST = 20
"""Most words of a heading: a longer line is text that begins with a number."""

_MAX_DEPTH = 9
"""Maximum depth of a section; further components of its number are ignored."""

_NUMBER = r"\d+[A-Z]{0,3}(?:[.\-–]\d+[A-Za-z]{0,2})*"
_ANY_NUMBER = rf"(?:{_NUMBER}|[IVXLCDM]+|[A-Z])"
_AFTER_NAME = lazy_pattern(rf"[ \t]+({_ANY_NUMBER})(?![A-Za-z0-9])")
_AFTER = lazy_pattern(r"[ \t]*(?:[—–:.|]|-(?=\s))?[ \t]*")
_CAPITAL = lazy_pattern(r"[\"'“‘(\[*_]*[A-Z0-9À-Þ]")
_NUMBERED = lazy_pattern(rf"({_NUMBER})(\.?)(?:[ \t]+(.*))?$")
_ROMAN_NUMBERED = lazy_pattern(r"([IVX]+|[A-Z])\.[ \t]+(.*)$")
_LAW_SECTION = lazy_pattern(rf"(§§?|Sec\.|SEC\.|Section|SECTION)[ \t]*({_NUMBER})((?:\([A-Za-z0-9]{{1,5}}\))*)(.*)$")
_ITEM = lazy_pattern(r"((?:\([A-Za-z0-9]{1,5}\)){1,6})(?:[ \t]+(.*))?$")
_DESIGNATOR = lazy_pattern(r"\(([A-Za-z0-9]{1,5})\)")
_ROMANS = ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII", "XIII", "XIV", "XV", "XVI")
_PAPER_HEADINGS = frozenset(
    (
        *("abstract", "introduction", "background", "related work", "methods", "method", "methodology"),
        *("materials and methods", "experiments", "results", "discussion", "results and discussion", "evaluation"),
        *("limitations", "conclusion", "conclusions", "future work", "acknowledgements", "acknowledgments"),
        *("references", "bibliography", "appendix"),
    )
)
_CONTRACT_HEADINGS = frozenset(("recitals", "definitions", "signatures", "background", "preamble"))


class Heading(Struct, frozen=True):
    """A heading found in a line.

    Attributes:
        rank: rank of the heading; a smaller rank is a higher level.
        kind: `section`, `part`, `article`, …; a clause is a section; `item` is an enumerated paragraph such as `(a)`.
        number: number without the name before it; empty if the heading has no number.
        title: the whole heading as a reader would cite it; before running text, the number and the first words.
        label: the part of the line before the section's text: the title, or `(a)` if the text follows in `body`.
        body: the rest of the line after the label; empty if there is none.
    """

    rank: tuple[int, int]
    kind: str
    number: str
    title: str
    label: str
    body: str = ""


class LineContext(Struct, frozen=True):
    """The context in which a line is read.

    Attributes:
        open: the headings of the enclosing sections, outermost first.
        begins: whether the line above is blank, a heading or missing.
    """

    open: tuple[Heading, ...]
    begins: bool


def read_headings(line: str, domain: Domain, context: LineContext) -> tuple[Heading, ...]:
    """Return the headings in a line, outermost first, such as two for `§ 1.2(a)`; empty if the line is ordinary text.

    Args:
        line: the line, without white space around it and without Markdown marks.
    """
    return _RULES[domain](line, context)


def kind_and_number(title: str, domain: Domain) -> tuple[str, str]:
    """Return the kind and number in the title of a Markdown heading; `heading` and an empty number if there is none."""
    found = read_headings(title, domain, LineContext((), True))
    if found and found[0].number:
        return found[0].kind, found[0].number + "".join(item.number for item in found[1:])
    if match := _NUMBERED.match(title):
        return "section", match[1]
    return "heading", ""


def first_words(text: str, limit: int = 10) -> str:
    """Return the first words of a text, followed by an ellipsis if it is longer."""
    found = text.split()
    return text if len(found) <= limit else f"{' '.join(found[:limit])} …"


def _named_heading(line: str, names: Mapping[str, int]) -> Heading | None:
    """Return the heading in a line such as `Part 2—Records`: a name in `names`, a number and a title; None for other
    lines.
    """
    name = re.match(r"[A-Z][A-Za-z]+", line)
    if name is None or (level := names.get(name[0].lower())) is None:
        return None
    number = _AFTER_NAME.match(line, name.end())
    rest = None if number is None else _heading_words(line[number.end() :])
    if number is None or rest is None:
        return None
    kind = "section" if level == 20 else name[0].lower()
    return _make_heading((1, level), kind, number[1], line[: number.end()], rest, line)


def _heading_words(text: str) -> str | None:
    """Return the title after the number of a heading; None if the line is a sentence."""
    separator = _AFTER.match(text)
    assert separator is not None
    rest = text[separator.end() :]
    if not rest or separator[0].strip() or _CAPITAL.match(rest):
        return rest
    return None


def _make_heading(rank: tuple[int, int], kind: str, number: str, label: str, text: str, line: str) -> Heading:
    """Return a heading. If the rest of its line is running text, its title is the first sentence or the first words."""
    if len(text.split()) <= _LONGEST and not re.search(r"[.;:,]\s|[;,:]$", text):
        return Heading(rank, kind, number, line, line)
    sentence = re.match(r"([^.;:]{1,120})\.\s", text)
    title = sentence[1] if sentence is not None and len(sentence[1].split()) <= 10 else first_words(text)
    return Heading(rank, kind, number, f"{label.rstrip('.')} {title}", label, text)


def _is_title(text: str | None) -> bool:
    return bool(text and _CAPITAL.match(text) and len(text.split()) <= _LONGEST and text.rstrip()[-1] not in ".;,:?!|")


def _numbered_title(line: str, context: LineContext) -> Heading | None:
    """Return the heading in a line such as `4.2 Passwords`; None for other lines."""
    match = _NUMBERED.match(line)
    if match is None or not context.begins or not _is_title(match[3]):
        return None
    parts = re.split(r"[.\-–]", match[1])
    before = [heading.number for heading in context.open if heading.rank == (1, 21) and heading.kind == "section"]
    if len(parts) == 1 and before and before[-1].isdigit() and parts[0] != str(int(before[-1]) + 1):
        # This is a list in a section, not the next section.
        return None
    return Heading((1, 20 + min(len(parts), _MAX_DEPTH)), "section", match[1], line, line)


_MANUAL_LEVELS = {"part": 1, "chapter": 2, "appendix": 2, "section": 20}
_US_DIVISIONS = ("title", "subtitle", "chapter", "subchapter", "part", "subpart", "article")
_US_LEVELS = {name: level for level, name in enumerate(_US_DIVISIONS, 1)} | {"appendix": 1}
_AU_LEVELS = {"chapter": 1, "part": 2, "division": 3, "subdivision": 4, "schedule": 1, "section": 20, "clause": 20}
_CONTRACT_LEVELS = {
    **dict.fromkeys(("article", "part", "schedule", "exhibit", "annex", "appendix"), 1),
    **dict.fromkeys(("section", "clause"), 20),
}
"""Level of each division by its name, for contracts; clauses have the level of sections."""


def _no_headings(line: str, context: LineContext) -> tuple[Heading, ...]:
    return ()


def _technical_headings(line: str, context: LineContext) -> tuple[Heading, ...]:
    found = _named_heading(line, _MANUAL_LEVELS) or _numbered_title(line, context)
    return () if found is None else (found,)


def _academic_headings(line: str, context: LineContext) -> tuple[Heading, ...]:
    if line.lower().rstrip(":") in _PAPER_HEADINGS and context.begins and line[0].isupper():
        return (Heading((1, 20), "heading", "", line.rstrip(":"), line),)
    match = _ROMAN_NUMBERED.match(line)
    if match is not None and context.begins and _is_title(match[2]):
        romans = [heading.number for heading in context.open if heading.rank == (1, 20) and heading.number in _ROMANS]
        following = _ROMANS[(_ROMANS.index(romans[-1]) if romans else 0) + 1 :][:1]
        if [match[1]] == list(following):
            return (Heading((1, 20), "section", match[1], line, line),)
        if romans and len(match[1]) == 1:
            return (Heading((1, 21), "section", f"{romans[-1]}.{match[1]}", line, line),)
    return _technical_headings(line, context)


def _us_legislative_headings(line: str, context: LineContext) -> tuple[Heading, ...]:
    if match := _LAW_SECTION.match(line):
        rest = _heading_words(match[4])
        if rest is None:
            return ()
        label, items = line[: match.end(2)], match[3]
        if not items:
            return (_make_heading((1, 20), "section", match[2], label, rest, line),)
        section = Heading((1, 20), "section", match[2], label, label)
        open_now = any(heading.kind == "section" and heading.number == match[2] for heading in context.open)
        below = LineContext(context.open if open_now else (section,), True)
        found = _item_headings(f"{items} {rest}".strip(), below, ("lower", "digit", "upper", "roman", "Roman"))
        return found if open_now else (section, *found)
    if (found_name := _named_heading(line, _US_LEVELS)) is not None:
        return (found_name,)
    return _item_headings(line, context, ("lower", "digit", "upper", "roman", "Roman"))


def _au_legislative_headings(line: str, context: LineContext) -> tuple[Heading, ...]:
    found = _named_heading(line, _AU_LEVELS)
    if found is None and context.begins and (match := re.match(r"(?:s[ \t]+)?(\d+[A-Z]{0,3})[ \t]+(.*)$", line)):
        found = Heading((1, 20), "section", match[1], line, line) if _is_title(match[2]) else None
    return _item_headings(line, context, ("digit", "lower", "roman", "upper")) if found is None else (found,)


def _legal_contract_headings(line: str, context: LineContext) -> tuple[Heading, ...]:
    if line.lower().rstrip(":") in _CONTRACT_HEADINGS and context.begins and line[0].isupper():
        return (Heading((1, 1), "heading", "", line.rstrip(":"), line),)
    if (named := _named_heading(line, _CONTRACT_LEVELS)) is not None:
        return (named,)
    match = _NUMBERED.match(line)
    if match is not None and match[3] and _CAPITAL.match(match[3]) and (match[2] or "." in match[1] or context.begins):
        depth = min(len(match[1].split(".")), _MAX_DEPTH)
        return (_make_heading((1, 20 + depth), "section", match[1], match[1], match[3], line),)
    return _item_headings(line, context, ("lower", "roman", "upper", "digit"))


_RULES: Mapping[Domain, Callable[[str, LineContext], tuple[Heading, ...]]] = {
    "none": _no_headings,
    "technical": _technical_headings,
    "academic": _academic_headings,
    "us_legislative": _us_legislative_headings,
    "au_legislative": _au_legislative_headings,
    "legal_contract": _legal_contract_headings,
}


def _item_headings(line: str, context: LineContext, kinds: tuple[str, ...]) -> tuple[Heading, ...]:
    """Return the headings in a line such as `(a)(1) Text`, the last with the text; empty for other lines."""
    match = _ITEM.match(line)
    if match is None:
        return ()
    found: list[Heading] = []
    levels = {
        heading.rank[1]: _item_value(heading.number[1:-1], kinds[heading.rank[1]])
        for heading in context.open
        if heading.kind == "item"
    }
    designators = _DESIGNATOR.findall(match[1])
    for at, designator in enumerate(designators):
        level = _item_level(designator, kinds, levels)
        if level is None:
            return ()
        levels = {known: value for known, value in levels.items() if known < level}
        levels[level] = _item_value(designator, kinds[level])
        label = f"({designator})"
        text = (match[2] or "") if at == len(designators) - 1 else ""
        found.append(Heading((2, level), "item", label, f"{label} {first_words(text)}".strip(), label, text))
    return tuple(found)


def _item_level(designator: str, kinds: tuple[str, ...], levels: Mapping[int, int | None]) -> int | None:
    """Return the level of a designator (`i` is a letter after `h`, but a Roman numeral after `a`); None if invalid."""
    fitting = [level for level, kind in enumerate(kinds) if _item_value(designator, kind) is not None]
    for level in reversed(fitting):
        if level in levels and _item_value(designator, kinds[level]) == (levels[level] or 0) + 1:
            return level
    firsts = [level for level in fitting if _item_value(designator, kinds[level]) == 1]
    known = [level for level in reversed(fitting) if level in levels]
    choices = [*(level for level in firsts if level not in levels), *firsts, *known, *fitting]
    return choices[0] if choices else None


def _item_value(designator: str, kind: str) -> int | None:
    """Return the position of a designator in an enumeration of this kind, from 1; None if it is of another kind."""
    if kind == "digit":
        return int(designator) if designator.isascii() and designator.isdigit() else None
    if kind in ("roman", "Roman"):
        fits = designator.islower() if kind == "roman" else designator.isupper()
        upper = designator.upper()
        return _ROMANS.index(upper) if fits and upper in _ROMANS else None
    fits = designator.islower() if kind == "lower" else designator.isupper()
    if not (fits and designator.isalpha() and len(designator) <= 2):
        return None
    return ord(designator[0].lower()) - 96 + (26 if len(designator) > 1 else 0)
