"""Untrusted text in Markdown as code: nothing in it can become a link, a mention, HTML or structure.

After rendering, GitHub turns mentions, references and URLs into links, except inside `code` and `pre`. Escaping is
therefore not enough (docs/github.md). Each function takes any string and returns Markdown that CommonMark and GFM parse
as nothing but text and code.
"""

from __future__ import annotations

from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import lines_of, one_line

EMPTY = "(empty)"

_BACKTICKS = lazy_pattern("`+")
# A backslash before the pipe would be read as escaping our backslash by some parsers: a space keeps them apart.
_PIPE_AFTER_BACKSLASH = lazy_pattern(r"\\(?=\|)")


def inline_code(text: str, limit: int = 300) -> str:
    """Return a code span, safe anywhere in a line.

    A `|` becomes `¦`, so that a span cannot end a table cell. For table cells, use `cell`.

    Args:
        text: untrusted text; line breaks become `⏎`.
        limit: maximum number of characters shown.
    """
    return _span(one_line(text, limit).replace("|", "¦"))


def cell(text: str, limit: int = 120) -> str:
    r"""Return a code span for a table cell, with pipes escaped as `\|`, which GFM unescapes even inside code.

    Args:
        text: untrusted text; line breaks become `⏎`.
        limit: maximum number of characters shown.
    """
    shown = _PIPE_AFTER_BACKSLASH.sub(r"\\ ", one_line(text, limit))
    return _span(shown).replace("|", r"\|")


def fence(text: str, limit: int = 2000, *, wrapped: bool = True) -> str:
    """Return a fenced code block with blank lines around it, so that it is a separate block wherever it is inserted.

    Args:
        text: untrusted text.
        limit: maximum number of characters shown.
        wrapped: whether to break long lines, since GitHub does not wrap code blocks.
    """
    shown = lines_of(text, limit, wrapped=wrapped)
    marks = "`" * max(3, 1 + _longest_run(shown))
    return f"\n\n{marks}text\n{shown or EMPTY}\n{marks}\n\n"


def _span(link_text: str) -> str:
    if not link_text:
        return EMPTY
    marks = "`" * (1 + _longest_run(link_text))
    # The parser removes one space on both sides. The spaces separate backticks at the ends from ours.
    return f"{marks} {link_text} {marks}" if len(marks) > 1 else f"{marks}{link_text}{marks}"


def _longest_run(text: str) -> int:
    return max(map(len, _BACKTICKS.findall(text)), default=0)
