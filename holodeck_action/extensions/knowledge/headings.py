"""Headings of a line, by the kind of document: what it is called, how it is numbered, how high it ranks.

Markdown's own headings are read elsewhere (`structure`); here are the plain lines that books of law, contracts, papers
and manuals begin their parts with. A line is taken for a heading only where it can hardly be a sentence: a name such
as `Part` needs a number and then nothing, a dash, a colon, a full stop or a capital letter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct

Domain = Literal["none", "us_legislative", "au_legislative", "academic", "technical", "legal_contract"]

_LONGEST = 20
"""Words of a heading: a longer line is text that begins with a number."""

_DEEPEST = 9
"""Parts of a section's number that count for its depth."""

_NUMBER = r"\d+[A-Z]{0,3}(?:[.\-–]\d+[A-Za-z]{0,2})*"
_ANY_NUMBER = rf"(?:{_NUMBER}|[IVXLCDM]+|[A-Z])"
_AFTER_NAME = re.compile(rf"[ \t]+({_ANY_NUMBER})(?![A-Za-z0-9])")
_AFTER = re.compile(r"[ \t]*(?:[—–:.|]|-(?=\s))?[ \t]*")
_CAPITAL = re.compile(r"[\"'“‘(\[*_]*[A-Z0-9À-Þ]")
_NUMBERED = re.compile(rf"({_NUMBER})(\.?)(?:[ \t]+(.*))?$")
_ROMAN_NUMBERED = re.compile(r"([IVX]+|[A-Z])\.[ \t]+(.*)$")
_LAW_SECTION = re.compile(rf"(§§?|Sec\.|SEC\.|Section|SECTION)[ \t]*({_NUMBER})((?:\([A-Za-z0-9]{{1,5}}\))*)(.*)$")
_ITEM = re.compile(r"((?:\([A-Za-z0-9]{1,5}\)){1,6})(?:[ \t]+(.*))?$")
_DESIGNATOR = re.compile(r"\(([A-Za-z0-9]{1,5})\)")
_ROMANS = ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII", "XIII", "XIV", "XV", "XVI")
_PAPER = frozenset(
    (
        *("abstract", "introduction", "background", "related work", "methods", "method", "methodology"),
        *("materials and methods", "experiments", "results", "discussion", "results and discussion", "evaluation"),
        *("limitations", "conclusion", "conclusions", "future work", "acknowledgements", "acknowledgments"),
        *("references", "bibliography", "appendix"),
    )
)
_CONTRACT = frozenset(("recitals", "definitions", "signatures", "background", "preamble"))


class Heading(Struct, frozen=True):
    """A heading that a line has.

    Attributes:
        rank: how high it stands; the smaller, the higher.
        kind: `section`, `part`, `article`, …; clauses are sections; `item` is an enumerated paragraph such as `(a)`.
        number: its number without the name, empty for none.
        title: the whole heading as a reader would cite it, or the beginning of an enumerated text.
        label: what names it before its own text: the title, or `(a)` where the text follows as `body`.
        body: the line's text where the label does not tell it all.
    """

    rank: tuple[int, int]
    kind: str
    number: str
    title: str
    label: str
    body: str = ""


class Place(Struct, frozen=True):
    """Where a line stands.

    Attributes:
        open: the headings around it, outermost first.
        begins: whether a blank line, a heading or nothing is above it.
    """

    open: tuple[Heading, ...]
    begins: bool


def headings(line: str, domain: Domain, place: Place) -> tuple[Heading, ...]:
    """Return the headings that a plain line opens, outermost first (`§ 1.2(a)` opens two); empty for text.

    Args:
        line: without blanks around it and without Markdown's marks.
    """
    return _RULES[domain](line, place)


def numbered(title: str, domain: Domain) -> tuple[str, str]:
    """Return kind and number that the title of a Markdown heading tells; `heading` and nothing when it tells none."""
    found = headings(title, domain, Place((), True))
    if found and found[0].number:
        return found[0].kind, found[0].number + "".join(item.number for item in found[1:])
    if match := _NUMBERED.match(title):
        return "section", match[1]
    return "heading", ""


def beginning(text: str, words: int = 10) -> str:
    """Return the first words of a text, with an ellipsis for the rest."""
    found = text.split()
    return text if len(found) <= words else f"{' '.join(found[:words])} …"


def _named(line: str, names: Mapping[str, int]) -> Heading | None:
    """Read `Part 2—Records`: a name of the table, a number, and what may follow one in a heading."""
    name = re.match(r"[A-Z][A-Za-z]+", line)
    if name is None or (level := names.get(name[0].lower())) is None:
        return None
    number = _AFTER_NAME.match(line, name.end())
    rest = None if number is None else _rest(line[number.end() :])
    if number is None or rest is None:
        return None
    kind = "section" if level == 20 else name[0].lower()
    return _heading((1, level), kind, number[1], line[: number.end()], rest, line)


def _rest(text: str) -> str | None:
    """Return the words after a number in a heading; None when they go on with a sentence."""
    separator = _AFTER.match(text)
    assert separator is not None
    rest = text[separator.end() :]
    if not rest or separator[0].strip() or _CAPITAL.match(rest):
        return rest
    return None


def _heading(rank: tuple[int, int], kind: str, number: str, label: str, rest: str, line: str) -> Heading:
    """Make a heading of its words; where they are a whole text, its first sentence or words are the title."""
    if len(rest.split()) <= _LONGEST and not re.search(r"[.;:,]\s|[;,:]$", rest):
        return Heading(rank, kind, number, line, line)
    sentence = re.match(r"([^.;:]{1,120})\.\s", rest)
    title = sentence[1] if sentence is not None and len(sentence[1].split()) <= 10 else beginning(rest)
    return Heading(rank, kind, number, f"{label.rstrip('.')} {title}", label, rest)


def _is_title(text: str | None) -> bool:
    return bool(text and _CAPITAL.match(text) and len(text.split()) <= _LONGEST and text.rstrip()[-1] not in ".;,:?!|")


def _numbered_title(line: str, place: Place) -> Heading | None:
    """Read `4.2 Passwords`."""
    match = _NUMBERED.match(line)
    if match is None or not place.begins or not _is_title(match[3]):
        return None
    parts = re.split(r"[.\-–]", match[1])
    before = [heading.number for heading in place.open if heading.rank == (1, 21) and heading.kind == "section"]
    if len(parts) == 1 and before and before[-1].isdigit() and parts[0] != str(int(before[-1]) + 1):
        # A list in a section, not the section after it.
        return None
    return Heading((1, 20 + min(len(parts), _DEEPEST)), "section", match[1], line, line)


_MANUAL = {"part": 1, "chapter": 2, "appendix": 2, "section": 20}
_US = {"title": 1, "subtitle": 2, "chapter": 3, "subchapter": 4, "part": 5, "subpart": 6, "article": 7, "appendix": 1}
_AU = {"chapter": 1, "part": 2, "division": 3, "subdivision": 4, "schedule": 1, "section": 20, "clause": 20}
_DEED = {
    **dict.fromkeys(("article", "part", "schedule", "exhibit", "annex", "appendix"), 1),
    **dict.fromkeys(("section", "clause"), 20),
}
"""Names of divisions and how high they stand; a clause is a section."""


def _none(line: str, place: Place) -> tuple[Heading, ...]:
    return ()


def _technical(line: str, place: Place) -> tuple[Heading, ...]:
    found = _named(line, _MANUAL) or _numbered_title(line, place)
    return () if found is None else (found,)


def _academic(line: str, place: Place) -> tuple[Heading, ...]:
    if line.lower().rstrip(":") in _PAPER and place.begins and line[0].isupper():
        return (Heading((1, 20), "heading", "", line.rstrip(":"), line),)
    match = _ROMAN_NUMBERED.match(line)
    if match is not None and place.begins and _is_title(match[2]):
        romans = [heading.number for heading in place.open if heading.rank == (1, 20) and heading.number in _ROMANS]
        following = _ROMANS[(_ROMANS.index(romans[-1]) if romans else 0) + 1 :][:1]
        if [match[1]] == list(following):
            return (Heading((1, 20), "section", match[1], line, line),)
        if romans and len(match[1]) == 1:
            return (Heading((1, 21), "section", f"{romans[-1]}.{match[1]}", line, line),)
    return _technical(line, place)


def _us_legislative(line: str, place: Place) -> tuple[Heading, ...]:
    if match := _LAW_SECTION.match(line):
        rest = _rest(match[4])
        if rest is None:
            return ()
        label, items = line[: match.end(2)], match[3]
        if not items:
            return (_heading((1, 20), "section", match[2], label, rest, line),)
        section = Heading((1, 20), "section", match[2], label, label)
        open_now = any(heading.kind == "section" and heading.number == match[2] for heading in place.open)
        below = Place(place.open if open_now else (section,), True)
        found = _items(f"{items} {rest}".strip(), below, ("lower", "digit", "upper", "roman", "Roman"))
        return found if open_now else (section, *found)
    if (found_name := _named(line, _US)) is not None:
        return (found_name,)
    return _items(line, place, ("lower", "digit", "upper", "roman", "Roman"))


def _au_legislative(line: str, place: Place) -> tuple[Heading, ...]:
    found = _named(line, _AU)
    if found is None and place.begins and (match := re.match(r"(?:s[ \t]+)?(\d+[A-Z]{0,3})[ \t]+(.*)$", line)):
        found = Heading((1, 20), "section", match[1], line, line) if _is_title(match[2]) else None
    return _items(line, place, ("digit", "lower", "roman", "upper")) if found is None else (found,)


def _legal_contract(line: str, place: Place) -> tuple[Heading, ...]:
    if line.lower().rstrip(":") in _CONTRACT and place.begins and line[0].isupper():
        return (Heading((1, 1), "heading", "", line.rstrip(":"), line),)
    if (named := _named(line, _DEED)) is not None:
        return (named,)
    match = _NUMBERED.match(line)
    if match is not None and match[3] and _CAPITAL.match(match[3]) and (match[2] or "." in match[1] or place.begins):
        depth = min(len(match[1].split(".")), _DEEPEST)
        return (_heading((1, 20 + depth), "section", match[1], match[1], match[3], line),)
    return _items(line, place, ("lower", "roman", "upper", "digit"))


_RULES: Mapping[Domain, Callable[[str, Place], tuple[Heading, ...]]] = {
    "none": _none,
    "technical": _technical,
    "academic": _academic,
    "us_legislative": _us_legislative,
    "au_legislative": _au_legislative,
    "legal_contract": _legal_contract,
}


def _items(line: str, place: Place, order: tuple[str, ...]) -> tuple[Heading, ...]:
    """Read `(a)(1) Text`: every designator opens a level, the last one has the text."""
    match = _ITEM.match(line)
    if match is None:
        return ()
    found: list[Heading] = []
    levels = {
        heading.rank[1]: _value(heading.number[1:-1], order[heading.rank[1]])
        for heading in place.open
        if heading.kind == "item"
    }
    designators = _DESIGNATOR.findall(match[1])
    for at, designator in enumerate(designators):
        level = _level(designator, order, levels)
        if level is None:
            return ()
        levels = {known: value for known, value in levels.items() if known < level}
        levels[level] = _value(designator, order[level])
        label = f"({designator})"
        text = (match[2] or "") if at == len(designators) - 1 else ""
        found.append(Heading((2, level), "item", label, f"{label} {beginning(text)}".strip(), label, text))
    return tuple(found)


def _level(designator: str, order: tuple[str, ...], levels: Mapping[int, int | None]) -> int | None:
    """Return the level of an enumeration: (i) after (h) is a letter, after (a) the first Roman number."""
    fitting = [level for level, kind in enumerate(order) if _value(designator, kind) is not None]
    for level in reversed(fitting):
        if level in levels and _value(designator, order[level]) == (levels[level] or 0) + 1:
            return level
    firsts = [level for level in fitting if _value(designator, order[level]) == 1]
    known = [level for level in reversed(fitting) if level in levels]
    choices = [*(level for level in firsts if level not in levels), *firsts, *known, *fitting]
    return choices[0] if choices else None


def _value(designator: str, kind: str) -> int | None:
    """Return where a designator stands in its kind of enumeration, from 1; None when it is of another kind."""
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
