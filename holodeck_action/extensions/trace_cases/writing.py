"""Converts recorded conversations to cases and renders them as a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from holodeck_action.extensions.importers.converted_suite import (
    ConvertedCase,
    ConvertedSuite,
    ConvertedTurn,
    cases_text,
    comment_line,
    files_of,
)
from holodeck_action.extensions.importers.readback import readback_problems
from holodeck_action.extensions.importers.unique_names import UniqueNames
from holodeck_action.extensions.trace_cases.conditions import REASONS
from holodeck_action.extensions.traces.conversations import TraceConversation, TraceTurn
from holodeck_action.suite.model.named_models import SMALL
from holodeck_action.text.plain import short_line

_NAME = 60
"""Maximum characters of a case's name, without the number that makes it unique."""
_MOST_TOOLS = 10
_AROUND: Mapping[str, Any] = {
    "name": "cases",
    "model": {"provider": "openai", "name": SMALL},
    "instructions": {"inline": "Answer."},
}
"""A minimal suite, used to check that the written cases can be loaded."""


class CaseWriter:
    """Turns conversations into cases.

    Args:
        mask: masks secrets and personal data in a text.
        accept: whether the recorded answers become expected answers.
        cases: names of existing cases, which new cases must not have.
    """

    def __init__(self, mask: Callable[[str], str], cases: Sequence[str], *, accept: bool) -> None:
        self._mask = mask
        self._accept = accept
        self._names = UniqueNames("{} ({})")
        for name in cases:
            self._names.add(name)

    def write(self, conversation: TraceConversation, reason: str) -> ConvertedCase:
        """Return a conversation as a case; `reason` is the value of `--pick` for which it was chosen."""
        turns = conversation.turns
        several = len(turns) > 1
        written = [ConvertedTurn(self._fields(turn)) for turn in turns]
        comments = [self._origin(conversation, reason)]
        for number, turn in enumerate(turns, start=1):
            comments += self._decisions(turn, f"turn {number}: " if several else "")
        name = short_line(written[0].fields["input"], _NAME) or "conversation"
        return ConvertedCase(self._names.add(name), comments, written, ())

    def _fields(self, turn: TraceTurn) -> dict[str, Any]:
        made = {"input": self._mask(turn.input or "")}
        if self._accept and self._answer(turn):
            made["ground_truth"] = self._mask(turn.output or "")
        return made

    @staticmethod
    def _answer(turn: TraceTurn) -> bool:
        """Return whether a turn's answer can serve as an expected answer."""
        return bool(turn.output and turn.output.strip() and not turn.error)

    def _origin(self, conversation: TraceConversation, reason: str) -> str:
        first = conversation.turns[0]
        traces = ", ".join(self._mask(turn.trace) for turn in conversation.turns[:3])
        more = f" and {len(conversation.turns) - 3} more" if len(conversation.turns) > 3 else ""
        session = "" if conversation.session is None else f", session {self._mask(conversation.session)}"
        models = f", {self._mask(', '.join(conversation.models))}" if conversation.models else ""
        return f"trace {traces}{more}{session}, {_time(first.start_ns)}{models}; picked for {REASONS[reason]}"

    def _decisions(self, turn: TraceTurn, start: str) -> Iterator[str]:
        """Yield a comment for each decision that a person must make about a turn."""
        if turn.error:
            yield f"{start}decide: what is the right answer? There was an error: {self._mask(turn.error)}"
        elif not self._answer(turn):
            yield f"{start}decide: what is the right answer? The trace has none"
        elif self._accept:
            yield f"{start}accepted as it was answered; decide: is the answer right?"
        else:
            yield f"{start}decide: what is the right answer? It was: {self._mask(turn.output or '')}"
        if turn.tools:
            names = ", ".join(self._mask(name) for name in turn.tools[:_MOST_TOOLS])
            yield f"{start}decide: which tools must be called? These were: {names}"


def file_text(cases: Sequence[ConvertedCase], head: Sequence[str]) -> str:
    """Return the content of a file of cases, with comment lines at its head."""
    return "".join([*map(comment_line, head), cases_text(cases)])


def loadable(cases: Sequence[ConvertedCase]) -> tuple[list[ConvertedCase], list[str]]:
    """Return the cases whose texts are unchanged after loading, and the reasons for dropping the others."""
    problems = _problems(cases)
    if not problems:
        return [*cases], []
    by_case = [(case, _problems([case])) for case in cases]
    return [case for case, found in by_case if not found], [found[0] for _, found in by_case if found]


def _problems(cases: Sequence[ConvertedCase]) -> list[str]:
    suite = ConvertedSuite("", "the traces", _AROUND, cases, {}, metrics=[{"type": "length", "min_words": 1}])
    return readback_problems(suite, files_of(suite))


def _time(nanoseconds: int) -> str:
    try:
        return datetime.fromtimestamp(nanoseconds // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, OSError, ValueError):
        return "time unknown"
