"""Shows problems with excerpts of their files: the line's number, its text, and a caret below the position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from holodeck_action.reports.terminal.drawing import wrap_line
from holodeck_action.suite.configuration_errors import Excerpt, LocatedProblem
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import mark_hidden, one_line
from holodeck_action.text.terminal import Terminal

_LOG_WIDTH = 120
_LONGEST_SENTENCE = 2000
_SPAN = lazy_pattern(r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[\w.$*/@+-]+|.""")
"""Matches the text at a position: a quotation, a word or a single character."""
_BOLD_RED, _DIM, _RED, _END = "\x1b[1;31m", "\x1b[2m", "\x1b[31m", "\x1b[0m"


def error_lines(problems: Sequence[str | LocatedProblem], terminal: Terminal) -> Iterator[str]:
    """Yield the lines that show problems; problems at the same position share one excerpt.

    Args:
        problems: the problems, in the order of the output.
        terminal: the features of the stream.
    """
    for place, told in groupby(problems, key=_position_key):
        group = list(told)
        for problem in group:
            yield from sentence_lines(one_line(str(problem), _LONGEST_SENTENCE), terminal)
        if isinstance(place, tuple):
            last = group[-1]
            assert isinstance(last, LocatedProblem)
            if last.excerpt is not None:
                yield from _excerpt_lines(last.excerpt, last.mark.line, terminal)


def sentence_lines(sentence: str, terminal: Terminal) -> Iterator[str]:
    """Yield the lines of an error; on a terminal, it is wrapped at words, and further lines are indented."""
    lines = [f"error: {sentence}"]
    if terminal.width is not None:
        lines = wrap_line(lines[0], terminal.width).split("\n")
    if terminal.colour:
        lines[0] = f"{_BOLD_RED}error:{_END}{lines[0].removeprefix('error:')}"
    yield from lines


def _position_key(problem: str | LocatedProblem) -> object:
    if isinstance(problem, str):
        return problem
    return problem.folder, problem.mark


def _excerpt_lines(excerpt: Excerpt, line: int, terminal: Terminal) -> Iterator[str]:
    # This module of rich imports no other part of it.
    from rich.cells import cell_len

    number = f"{line:>5}"
    room = max(20, (terminal.width or _LOG_WIDTH) - len(number) - 4)
    before, rest = mark_hidden(excerpt.before), mark_hidden(excerpt.after)
    while before and cell_len(before) > room * 2 // 3:
        before = f"…{before[2 + len(before) // 8 :]}"
    whole = before + rest
    if cell_len(whole) > room:
        while cell_len(whole) > room - 1:
            whole = whole[:-1]
        whole = f"{whole}…"
    match = _SPAN.match(rest)
    span = max(1, min(cell_len(match[0]) if match else 1, cell_len(whole) - cell_len(before)))
    caret = f"{' ' * cell_len(before)}{'^' * span}"
    if terminal.colour:
        yield f"{_DIM}{number} |{_END} {whole.rstrip()}"
        yield f"{_DIM}{' ' * len(number)} |{_END} {' ' * cell_len(before)}{_RED}{'^' * span}{_END}"
    else:
        yield f"{number} | {whole.rstrip()}"
        yield f"{' ' * len(number)} | {caret}"
