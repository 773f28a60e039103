"""Agents that are a transcript: answers written down before, looked up by case, turn and trial."""

from __future__ import annotations

import difflib
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path

from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.values import Case, Turn
from holodeck_action.targets.protocol import Reply, Session
from holodeck_action.targets.reply import REPLY_KEYS, reply_from_mapping, untold_without
from holodeck_action.targets.transcripts import ADDRESS_KEYS, Row, open_transcript
from holodeck_action.text.json_values import JSON_EXPANSION, kind_of, unknown_key
from holodeck_action.text.plain import excerpt

_ROW_OVERHEAD = 65_536
"""Bytes of a line allowed beyond its reply: the case's name, white space."""

_NOTICES_SHOWN = 10
"""Unusable rows that are told one by one; the others are counted."""

_Address = str | tuple[str, int, int]
_Problem = tuple[str, str]


class RecordedAgent:
    """Answers from a transcript of rows `{case, turn, trial, response, tool_invocations, …}`.

    A row's `case` is an id or a name, an id first; `turn` and `trial` are 0 unless given. The trial must be recorded
    itself: an answer of another trial is never used in its place. A row that cannot be used is an error of the case it
    names and of nobody else; one that names no case of the suite becomes a notice.
    """

    def __init__(
        self, path: Path, title: str, cases: Sequence[Case], max_bytes: int, checkout: Checkout | None = None
    ) -> None:
        """Index the transcript; of JSON lines only the rows' positions are kept.

        Args:
            path: the transcript.
            cases: all cases of the suite, the ones that are not run too.
            checkout: what may be read; None for everything, where a user of the program names the file.

        Raises:
            TargetError: the file is missing, unreadable, out of reach, empty, or not of its format as a whole.
        """
        self._title = title
        self._max_bytes = max_bytes
        self._transcript = open_transcript(
            path, title, max_bytes * JSON_EXPANSION + _ROW_OVERHEAD, checkout or Checkout.anywhere(path.parent)
        )
        index = _Index(title, cases)
        for row in self._transcript.rows():
            index.add(row)
        if index.seen == 0:
            self._transcript.close()
            raise TargetError(f"transcript {title} is empty; it needs a row for every case")
        index.finish()
        self._rows = index.rows
        self._problems = index.problems
        self._case_problems = index.case_problems
        self.notices: tuple[str, ...] = index.notices()
        self.untold = untold_without(index.keys, f"no row of {title} has {{}}", timed=False)

    async def open(self, case: Case, trial: int) -> RecordedSession:
        """Start to read one trial of one case."""
        if case.id in self._case_problems:
            message, code = self._case_problems[case.id]
            raise AgentError(message, code)
        return RecordedSession(self, case, trial)

    async def close(self) -> None:
        """Release the file."""
        self._transcript.close()

    def answer(self, case: Case, trial: int, turn: int) -> Reply:
        """Look up one answer.

        Raises:
            AgentError: it is missing, recorded twice, or its row is broken.
        """
        address = _address(case, turn, trial)
        if address in self._problems:
            message, code = self._problems[address]
            raise AgentError(message, code)
        if address not in self._rows:
            raise AgentError(
                f"{self._title} has no answer for case {_named(case)}, turn {turn}, trial {trial}",
                "missing_transcript",
                {"case": case.id, "turn": turn, "trial": trial},
            )
        line, *place = self._rows[address]
        where = f"{self._title}:{line}"
        try:
            row = self._transcript.read((place[0], place[1]))
        except (OSError, ValueError):
            raise AgentError(f"{where}: the transcript was changed while it was read", "bad_transcript") from None
        reply = {key: value for key, value in row.items() if key not in ADDRESS_KEYS}
        try:
            return reply_from_mapping(reply, max_bytes=self._max_bytes)
        except AgentError as error:
            raise AgentError(f"{where}: {error.message}", error.code, error.context) from None


class RecordedSession(Session):
    """One trial of one case, read turn by turn."""

    timed = False

    def __init__(self, agent: RecordedAgent, case: Case, trial: int) -> None:
        self._agent = agent
        self._case = case
        self._trial = trial

    async def send(self, turn: Turn) -> Reply:
        """Look up the answer to one turn."""
        return self._agent.answer(self._case, self._trial, turn.index)


def _address(case: Case, turn: int, trial: int) -> _Address:
    """Return what finds the answer of a case; of most it is the first one to one question, which the id finds."""
    return (case.id, turn, trial) if turn or trial else case.id


class _Rows:
    """Where rows stand, by what they answer: line, and the place for `Transcript.read`."""

    def __init__(self) -> None:
        self._numbers: dict[_Address, int] = {}
        self._lines, self._starts, self._lengths = array("Q"), array("Q"), array("Q")

    def add(self, address: _Address, row: Row) -> None:
        """Add one that answers what none answers yet."""
        self._numbers[address] = len(self._lines)
        start, length = row.place
        self._lines.append(row.line)
        self._starts.append(start)
        self._lengths.append(length)

    def __contains__(self, address: _Address) -> bool:
        return address in self._numbers

    def __getitem__(self, address: _Address) -> tuple[int, int, int]:
        number = self._numbers[address]
        return self._lines[number], self._starts[number], self._lengths[number]


class _Index:
    """Which row answers which turn of which trial, and what is wrong with the others."""

    def __init__(self, title: str, cases: Iterable[Case]) -> None:
        self.seen = 0
        self.keys: set[object] = set()
        self.rows = _Rows()
        self.problems: dict[_Address, _Problem] = {}
        self.case_problems: dict[str, _Problem] = {}
        self._title = title
        self._by_id = {case.id: case for case in cases}
        self._by_name: dict[str, list[Case]] = {}
        for case in self._by_id.values():
            if case.name is not None:
                self._by_name.setdefault(case.name, []).append(case)
        self._ambiguous: list[tuple[int, str, int, int]] = []
        self._notices: list[str] = []
        self._unusable = 0

    def add(self, row: Row) -> None:
        """File one row."""
        self.seen += 1
        self.keys.update(row.keys or ())
        name = row.address.get("case")
        if not isinstance(name, str):
            problem = row.problem or (
                "it names no case" if "case" not in row.address else f"`case` must be text, not {kind_of(name)}"
            )
            self._unusable_row(row.line, problem)
            return
        cases = [self._by_id[name]] if name in self._by_id else self._by_name.get(name, [])
        if not cases:
            self._unusable_row(row.line, f"the suite has no case {excerpt(name, 80)}", name)
            return
        turn, trial = _number(row, "turn"), _number(row, "trial")
        if len(cases) > 1:
            self._ambiguous.append((row.line, name, turn or 0, trial or 0))
            return
        self._file(row, cases[0], turn, trial)

    def finish(self) -> None:
        """Settle rows whose name several cases share: an error where no row names the case by its id."""
        for line, name, turn, trial in self._ambiguous:
            cases = self._by_name[name]
            ids = ", ".join(case.id for case in cases)
            message = f"{self._title}:{line}: several cases are named {excerpt(name, 80)}; name one by its id: {ids}"
            for case in cases:
                address = _address(case, turn, trial)
                if address not in self.rows:
                    self.problems.setdefault(address, (message, "ambiguous_transcript"))

    def notices(self) -> tuple[str, ...]:
        """Tell the first unusable rows, count the others."""
        left = self._unusable - len(self._notices)
        return (*self._notices, f"{self._title}: {left} more rows cannot be used") if left else tuple(self._notices)

    def _file(self, row: Row, case: Case, turn: int | None, trial: int | None) -> None:
        where = f"{self._title}:{row.line}"
        problem = row.problem or _wrong_address(row) or _unknown_key(row)
        if problem is not None:
            found = (f"{where}: the row of case {_named(case)} cannot be used: {problem}", "bad_transcript")
            lost = turn is None or trial is None or (row.problem and "turn" not in row.address and case.multi_turn)
            if lost:
                self.case_problems.setdefault(case.id, found)
            else:
                self.problems.setdefault(_address(case, turn or 0, trial or 0), found)
            return
        turn, trial = turn or 0, trial or 0
        address = _address(case, turn, trial)
        if turn >= len(case.turns):
            count = len(case.turns)
            turns = "1 turn" if count == 1 else f"{count} turns"
            self._unusable_row(row.line, f"case {_named(case)} has {turns}, so turn {turn} is never asked")
        elif address in self.rows:
            first = self.rows[address][0]
            message = (
                f"{self._title}: lines {first} and {row.line} both answer case {_named(case)}, "
                f"turn {turn}, trial {trial}"
            )
            self.problems.setdefault(address, (message, "duplicate_transcript"))
        else:
            self.rows.add(address, row)

    def _unusable_row(self, line: int, problem: str, name: str | None = None) -> None:
        self._unusable += 1
        if len(self._notices) < _NOTICES_SHOWN:
            close = difflib.get_close_matches(name, [*self._by_name, *self._by_id], n=1) if name else []
            hint = f" (did you mean {excerpt(close[0], 80)}?)" if close else ""
            self._notices.append(f"{self._title}:{line}: the row cannot be used: {problem}{hint}")


def _number(row: Row, key: str) -> int | None:
    """Turn or trial of a row, 0 unless given; None when it is no such number."""
    value = row.address.get(key)
    if value is None:
        return 0
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _wrong_address(row: Row) -> str | None:
    for key in ("turn", "trial"):
        if _number(row, key) is None:
            return f"`{key}` must be a whole number from 0 on"
    return None


def _unknown_key(row: Row) -> str | None:
    allowed = (*ADDRESS_KEYS, *REPLY_KEYS)
    return next((unknown_key(key, allowed) for key in row.keys or () if key not in allowed), None)


def _named(case: Case) -> str:
    return case.id if case.name is None else excerpt(case.name, 80)
