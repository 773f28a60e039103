"""Messages for errors of libyaml that tell the user what to change."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from yaml.error import Mark, MarkedYAMLError

from holodeck_action.text.lazy_patterns import lazy_pattern

_LONGEST_KEY = 1024
_KEY_BEFORE = lazy_pattern(r"\s*(?:- +)*(?:\"[^\"]*\"|'[^']*'|[^\s:'\"][^:]*):\s+\S")
"""A key and the beginning of its value, at the start of a line."""
_DASHED_WORD = lazy_pattern(r"\s*-[^\s-]")
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}


class YamlDefect(Struct, frozen=True):
    """A defect of a YAML text. `message` is a clause about the file; `line` and `column` count from 1."""

    line: int
    column: int
    message: str


class _ErrorContext(Struct, frozen=True):
    """The parser's error: its position, start and context, and the lines of the text. Positions count from 0."""

    lines: Sequence[str]
    at: tuple[int, int]
    began: tuple[int, int]
    context: str

    def line(self, index: int) -> str:
        return self.lines[index] if 0 <= index < len(self.lines) else ""

    @property
    def text_before(self) -> str:
        return self.line(self.at[0])[: self.at[1]]

    @property
    def text_after(self) -> str:
        return self.line(self.at[0])[self.at[1] :]

    @property
    def opening_text(self) -> str:
        """The rest of the line on which the part with the defect starts, from that start."""
        return self.line(self.began[0])[self.began[1] :]

    @property
    def is_at_end(self) -> bool:
        """Whether only comments and blank lines follow the defect."""
        following = (self.text_after, *self.lines[self.at[0] + 1 :])
        return all(not line.strip() or line.lstrip().startswith("#") for line in following)


_Explanation = tuple[tuple[int, int], str]


def defect_of(error: MarkedYAMLError, lines: Sequence[str]) -> YamlDefect:
    """Return the defect for an error of libyaml, at the position to change.

    Args:
        error: error of libyaml.
        lines: lines of the text, without line ends.
    """
    mark = error.problem_mark or error.context_mark
    at = _place(mark)
    found = _ErrorContext(lines, at, _place(error.context_mark) if error.context_mark else at, error.context or "")
    problem = error.problem or ""
    if "tab character" in problem or found.text_after.startswith("\t"):
        where, message = at, "a tab cannot indent YAML: use spaces"
        return YamlDefect(where[0] + 1, where[1] + 1, message)
    if "directive" in problem or "directive" in found.context or "version" in problem:
        said = found.began, "a line that starts with % is a directive of YAML: remove it, or put the text in quotes"
    elif "tag" in problem or "a tag" in found.context:
        said = found.began, _cannot_start("!")
    elif problem in _EXPLAINERS:
        said = _EXPLAINERS[problem](found)
    else:
        said = at, " ".join(part for part in (problem, found.context) if part)
    (line, column), message = said
    whole = message if message.startswith("a value cannot start") else f"is not valid YAML: {message}"
    return YamlDefect(line + 1, column + 1, whole)


def _place(mark: Mark | None) -> tuple[int, int]:
    return (mark.line, mark.column) if mark is not None else (0, 0)


def _cannot_start(character: str) -> str:
    return f"a value cannot start with {character}: put it in quotes"


def _explain_colon(context: _ErrorContext) -> _Explanation:
    """Explain a colon where no key is allowed."""
    line, _ = context.at
    if _KEY_BEFORE.match(context.text_before) or (
        context.text_before.strip() and _KEY_BEFORE.match(context.text_before + "x")
    ):
        return context.at, "the value holds a colon: put the value in quotes"
    if len(context.text_before.strip()) > _LONGEST_KEY:
        return context.at, f"a key is longer than {_LONGEST_KEY:,} characters: shorten it"
    above = next((index for index in range(line - 1, -1, -1) if context.line(index).strip()), None)
    text = "" if above is None else context.line(above)
    here = (line, len(context.text_before) - len(context.text_before.lstrip()))
    if above is None:
        return context.at, "unexpected colon, no key is allowed here: put the text in quotes"
    if _DASHED_WORD.match(text):
        return (above, text.index("-")), "an item of a list needs a space after its dash"
    if text.count('"') % 2 or text.count("'") % 2:
        return here, "a key must be on one line"
    if re.search(r":\s", text):
        return here, f"this key is indented below line {above + 1}, which has a value already: indent it like that line"
    return (above, len(text) - len(text.lstrip())), "this line is not a key: write it as `key: value`"


def _explain_missing_colon(context: _ErrorContext) -> _Explanation:
    if _DASHED_WORD.match(context.line(context.began[0])):
        return context.began, "an item of a list needs a space after its dash"
    return context.began, "this line is not a key: write it as `key: value`"


def _explain_missing_key(context: _ErrorContext) -> _Explanation:
    """Explain text where the next key of a mapping is expected."""
    before = context.text_before.rstrip()
    first = context.line(context.began[0])
    if "\ufeff" in before + context.text_after[:1]:
        return context.at, "unexpected byte order mark inside the file: delete it"
    if before.endswith("'"):
        return context.at, "text follows the closing quote: write '' for ' inside single quotes, or use double quotes"
    if before.endswith('"'):
        return context.at, 'text follows the closing quote: write \\" for " inside double quotes, or use single quotes'
    if before.endswith(("]", "}")):
        return context.at, f"text follows the closing {before[-1]}: put the whole value in quotes"
    if before.strip():
        return context.at, "text follows the end of a value: put the whole value in quotes"
    if _DASHED_WORD.match(first):
        return (context.began[0], first.index("-")), "an item of a list needs a space after its dash"
    if context.text_after.startswith("-") and context.at[1] <= context.began[1]:
        return context.at, "found an item of a list instead of a key: indent it below its key"
    return context.at, (
        "the indentation of this line matches no line above it: indent it like the lines that it belongs to"
    )


def _flow_explainer(closing: str, other: str) -> Callable[[_ErrorContext], _Explanation]:
    opening = {"]": "[", "}": "{"}[closing]
    what = {"]": "list", "}": "mapping"}[closing]

    def explain(context: _ErrorContext) -> _Explanation:
        if context.text_after.startswith(other):
            return context.at, f"{other} cannot close {opening}: write {closing}"
        if context.is_at_end or context.at[0] > context.began[0]:
            return (
                context.began,
                f"the {what} that begins here is not closed: add {closing}, or put the value in quotes",
            )
        return context.at, f"a comma or {closing} is missing here, or the value needs quotes"

    return explain


def _explain_missing_value(context: _ErrorContext) -> _Explanation:
    if context.is_at_end:
        return context.at, "the text ends inside brackets: close [ with ], and { with }"
    if "block" in context.context:
        return context.at, _cannot_start(context.text_after[:1])
    return context.at, "an item is missing before this sign, or the value needs quotes"


def _explain_open_quote(context: _ErrorContext) -> _Explanation:
    return context.began, f"the quotation that begins here is not closed: add {context.opening_text[:1]} at its end"


def _explain_escape(context: _ErrorContext) -> _Explanation:
    sign = context.text_after[1:2]
    return context.at, (
        f"\\{sign} is not an escape in double quotes: write \\\\{sign} for a backslash, or use single quotes"
    )


def _explain_missing_digits(context: _ErrorContext) -> _Explanation:
    sign = context.text_before[-1:]
    needed = f"\\{sign} needs {_HEX_DIGITS.get(sign, 2)} hexadecimal digits"
    place = (context.at[0], max(0, context.at[1] - 2))
    return place, f"{needed}: write \\\\{sign} for a backslash, or use single quotes"


def _explain_text_after_end(context: _ErrorContext) -> _Explanation:
    above = [line for line in context.lines[: context.at[0]] if line.strip()]
    if context.text_before.startswith("...") or any(line.startswith("...") for line in above):
        return context.at, "text follows the end of the document, which ... marks: remove the line with ..."
    if any(line.startswith("%") for line in above):
        return context.at, "--- is missing below a directive, which starts with %: add it, or remove the directive"
    return context.at, "text follows the end of the document: put the whole value in quotes"


_EXPLAINERS: Mapping[str, Callable[[_ErrorContext], _Explanation]] = {
    "mapping values are not allowed in this context": _explain_colon,
    "could not find expected ':'": _explain_missing_colon,
    "did not find expected key": _explain_missing_key,
    "did not find expected '-' indicator": lambda found: (
        found.at,
        "found a key instead of an item of the list: start the line with a dash and a space, or indent it",
    ),
    "did not find expected ',' or ']'": _flow_explainer("]", "}"),
    "did not find expected ',' or '}'": _flow_explainer("}", "]"),
    "did not find expected node content": _explain_missing_value,
    "found character that cannot start any token": lambda found: (found.at, _cannot_start(found.text_after[:1])),
    "did not find expected alphabetic or numeric character": lambda found: (
        found.began,
        _cannot_start(found.opening_text[:1]),
    ),
    "found unexpected end of stream": _explain_open_quote,
    "found unexpected document indicator": lambda found: (
        found.at,
        f"{found.text_after[:3]} is inside a quotation: close the quotation before it, or indent the line",
    ),
    "found unknown escape character": _explain_escape,
    "did not find expected hexdecimal number": _explain_missing_digits,
    "found invalid Unicode character escape code": lambda found: (
        found.at,
        "the escape names no character: write \\\\ for a backslash, or use single quotes",
    ),
    "did not find expected <document start>": _explain_text_after_end,
    "found incompatible YAML document": lambda found: (
        found.at,
        "the directive %YAML names an unsupported version (allowed: 1.1 and 1.2): remove the line",
    ),
    "did not find expected comment or line break": lambda found: (
        found.began,
        f"a value cannot start with {found.opening_text[:1]}, unless its text begins on the next line: "
        "put it in quotes",
    ),
    "found an indentation indicator equal to 0": lambda found: (
        found.at,
        "the digit after | or > is the indentation of the text, from 1 to 9",
    ),
    "block sequence entries are not allowed in this context": lambda found: (
        found.at,
        "a list cannot begin on the line of its key: begin it on the next line, or put the value in quotes",
    ),
}
"""Functions that explain libyaml's messages, each with the position to change."""
