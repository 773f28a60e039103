"""Targets that are a transcript: a file of recorded answers, one for each case, turn and trial."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.values import Case, Turn
from holodeck_action.targets.protocol import Agent, Reply, Session
from holodeck_action.targets.reply import REPLY_KEYS, missing_facts, reply_from_mapping
from holodeck_action.targets.transcripts import TURN_KEYS, JsonLinesTranscript, Row, open_transcript
from holodeck_action.text.json_values import JSON_EXPANSION, kind_of, unknown_key_clause
from holodeck_action.text.plain import excerpt

_ROW_OVERHEAD = 65_536
"""Bytes that a line may have in addition to its reply, such as for the case's name."""

_NOTICES_SHOWN = 10
"""Maximum number of notices about unusable rows; further unusable rows are only counted."""

_AnswerKey = tuple[str, int, int]
"""Id of the case, turn and trial."""
_Problem = tuple[str, str]


class RecordedAgent(Agent):
    """Answers from a transcript with rows `{case, turn, trial, response, tool_invocations, …}`.

    The `case` of a row is the id or the name of a case; ids take precedence. `turn` and `trial` are 0 by default. The
    answer of one trial is never used for another. An unusable row is an error of its case only. A row that matches no
    case of the suite causes a notice.
    """

    def __init__(
        self,
        path: Path,
        title: str,
        cases: Sequence[Case],
        max_bytes: int,
        checkout: Checkout | None = None,
        opener: Callable[[Sequence[Case]], BinaryIO] | None = None,
    ) -> None:
        """Index the rows of the transcript. For JSON lines, only the positions of rows are kept in memory.

        Args:
            path: path of the transcript.
            title: the transcript's name in messages.
            cases: all cases of the suite, including those that are not run.
            max_bytes: maximum bytes of UTF-8 in one reply.
            checkout: the folders that may be read; None if there is no restriction.
            opener: opens the answers to `cases`, as JSON lines, in place of `path`; None to open `path`.

        Raises:
            TargetError: the file is missing, unreadable, not allowed, empty, or has the wrong format.
        """
        self._title = title
        self._max_bytes = max_bytes
        max_line = max_bytes * JSON_EXPANSION + _ROW_OVERHEAD
        self._transcript = (
            open_transcript(path, title, max_line, checkout or Checkout.unbounded(path.parent))
            if opener is None
            else JsonLinesTranscript(opener(cases), title, max_line)
        )
        index = _TranscriptIndex(title, cases)
        for row in self._transcript.rows():
            index.add(row)
        if index.row_count == 0:
            self._transcript.close()
            raise TargetError(f"transcript {title} is empty; it needs a row for every case")
        index.finish()
        self._rows = index.rows
        self._problems = index.problems
        self._case_problems = index.case_problems
        self._notices = index.notices()
        self.unreported = missing_facts(index.keys, f"no row of {title} has {{}}", is_timed=False)

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about rows of the transcript, one sentence each."""
        return self._notices

    async def open(self, case: Case, trial: int) -> RecordedSession:
        """Return a session that answers one trial of a case.

        Raises:
            AgentError: a row of the case is unusable, and it is unknown which turn or trial it answers.
        """
        if case.id in self._case_problems:
            message, code = self._case_problems[case.id]
            raise AgentError(message, code)
        return RecordedSession(self, case, trial)

    async def close(self) -> None:
        """Close the file."""
        self._transcript.close()

    def answer(self, case: Case, trial: int, turn: int) -> Reply:
        """Return the recorded answer to a turn.

        Raises:
            AgentError: the transcript has no answer, several answers or an invalid row for this turn.
        """
        key = (case.id, turn, trial)
        if key in self._problems:
            message, code = self._problems[key]
            raise AgentError(message, code)
        if key not in self._rows:
            raise AgentError(
                f"{self._title} has no answer for case {_case_label(case)}, turn {turn}, trial {trial}",
                "missing_transcript",
                {"case": case.id, "turn": turn, "trial": trial},
            )
        line, position = self._rows[key]
        where = f"{self._title}:{line}"
        try:
            row = self._transcript.read(position)
        except (OSError, ValueError):
            raise AgentError(f"{where}: the transcript was changed while it was read", "bad_transcript") from None
        reply = {key: value for key, value in row.items() if key not in TURN_KEYS}
        try:
            return reply_from_mapping(reply, max_bytes=self._max_bytes)
        except AgentError as error:
            raise AgentError(f"{where}: {error.message}", error.code, error.context) from None


class RecordedSession(Session):
    """One trial of one case, answered turn by turn."""

    timed = False

    def __init__(self, agent: RecordedAgent, case: Case, trial: int) -> None:
        self._agent = agent
        self._case = case
        self._trial = trial

    async def send(self, turn: Turn) -> Reply:
        """Return the recorded answer to one turn."""
        return self._agent.answer(self._case, self._trial, turn.index)


class _TranscriptIndex:
    """The rows of a transcript by case, turn and trial, and the problems of unusable rows.

    `rows` has the line number and the position (see `Transcript.read`) of each usable row.
    """

    def __init__(self, title: str, cases: Iterable[Case]) -> None:
        self.row_count = 0
        self.keys: set[object] = set()
        self.rows: dict[_AnswerKey, tuple[int, tuple[int, int]]] = {}
        self.problems: dict[_AnswerKey, _Problem] = {}
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
        """Add one row."""
        self.row_count += 1
        self.keys.update(row.keys or ())
        name = row.turn_fields.get("case")
        if not isinstance(name, str):
            problem = row.problem or (
                "no case is named" if "case" not in row.turn_fields else f"`case` must be text, not {kind_of(name)}"
            )
            self._note_unusable(row.line, problem)
            return
        cases = [self._by_id[name]] if name in self._by_id else self._by_name.get(name, [])
        if not cases:
            self._note_unusable(row.line, f"the suite has no case {excerpt(name, 80)}", name)
            return
        turn, trial = _index_field(row, "turn"), _index_field(row, "trial")
        if len(cases) > 1:
            self._ambiguous.append((row.line, name, turn or 0, trial or 0))
            return
        self._add_answer(row, cases[0], turn, trial)

    def finish(self) -> None:
        """Add a problem for each row whose case name belongs to several cases; call it after all rows were added.

        The row is an error of each of these cases, unless another row names the case by its id.
        """
        for line, name, turn, trial in self._ambiguous:
            cases = self._by_name[name]
            ids = ", ".join(case.id for case in cases)
            message = f"{self._title}:{line}: several cases are named {excerpt(name, 80)}; name one by its id: {ids}"
            for case in cases:
                key = (case.id, turn, trial)
                if key not in self.rows:
                    self.problems.setdefault(key, (message, "ambiguous_transcript"))

    def notices(self) -> tuple[str, ...]:
        """Return notices about the first unusable rows, and a notice with the number of all others."""
        left = self._unusable - len(self._notices)
        return (*self._notices, f"{self._title}: {left} more rows cannot be used") if left else tuple(self._notices)

    def _add_answer(self, row: Row, case: Case, turn: int | None, trial: int | None) -> None:
        where = f"{self._title}:{row.line}"
        problem = row.problem or _index_problem(row) or _key_problem(row)
        if problem is not None:
            found = (f"{where}: the row of case {_case_label(case)} cannot be used: {problem}", "bad_transcript")
            lost = turn is None or trial is None or (row.problem and "turn" not in row.turn_fields and case.multi_turn)
            if lost:
                self.case_problems.setdefault(case.id, found)
            else:
                self.problems.setdefault((case.id, turn or 0, trial or 0), found)
            return
        turn, trial = turn or 0, trial or 0
        key = (case.id, turn, trial)
        # The turns of a simulated user are not known before the run.
        count = len(case.turns) if case.simulation is None else case.simulation.most_turns
        if turn >= count:
            turns = "1 turn" if count == 1 else f"{count} turns"
            self._note_unusable(row.line, f"case {_case_label(case)} has {turns}, so turn {turn} is never run")
        elif key in self.rows:
            first = self.rows[key][0]
            message = (
                f"{self._title}: lines {first} and {row.line} both answer case {_case_label(case)}, "
                f"turn {turn}, trial {trial}"
            )
            self.problems.setdefault(key, (message, "duplicate_transcript"))
        else:
            self.rows[key] = row.line, row.position

    def _note_unusable(self, line: int, problem: str, name: str | None = None) -> None:
        self._unusable += 1
        if len(self._notices) < _NOTICES_SHOWN:
            from difflib import get_close_matches

            close = get_close_matches(name, [*self._by_name, *self._by_id], n=1) if name else []
            hint = f" (did you mean {excerpt(close[0], 80)}?)" if close else ""
            self._notices.append(f"{self._title}:{line}: the row cannot be used: {problem}{hint}")


def _index_field(row: Row, key: str) -> int | None:
    """Return the `turn` or `trial` of a row: 0 if it is missing, None if it is not a valid index."""
    value = row.turn_fields.get(key)
    if value is None:
        return 0
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _index_problem(row: Row) -> str | None:
    for key in ("turn", "trial"):
        if _index_field(row, key) is None:
            return f"`{key}` must be a whole number of at least 0"
    return None


def _key_problem(row: Row) -> str | None:
    allowed = (*TURN_KEYS, *REPLY_KEYS)
    return next((unknown_key_clause(key, allowed) for key in row.keys or () if key not in allowed), None)


def _case_label(case: Case) -> str:
    return case.id if case.name is None else excerpt(case.name, 80)
