"""Shows several runs on one page, each in a column: matches their cases by id, and finds differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from holodeck_action.decide.verdict import CaseVerdict
from holodeck_action.record.record import CaseRecord
from holodeck_action.reports.conclusion import Conclusion
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.plain import one_line

MOST_RUNS = 6
"""Maximum number of runs on a page, so that their columns fit on a screen."""

Difference = Literal["verdict", "answer"]
"""The greatest difference of a case between runs; a case that a run lacks counts as another verdict."""


class RunColumn(Struct, frozen=True):
    """A run of a page with several runs; `name` is its origin as the user typed it."""

    name: str
    concluded: Conclusion


class CaseInRun(Struct, frozen=True):
    """A case in one of the other runs, with its verdict there."""

    case: CaseRecord
    verdict: CaseVerdict


def check_columns(runs: Sequence[RunColumn]) -> None:
    """Check that runs can be the columns of one page.

    Raises:
        ConfigurationError: there are too many runs, or a run has no case in common with the first run.
    """
    if len(runs) > MOST_RUNS:
        raise ConfigurationError([f"a page shows at most {MOST_RUNS} runs, and there are {len(runs)}: leave some out"])
    first = runs[0]
    known = {case.id for case in first.concluded.record.cases}
    strangers = [run for run in runs[1:] if known.isdisjoint(case.id for case in run.concluded.record.cases)]
    if strangers:
        raise ConfigurationError(
            [
                f"{run.name}: has no case of {first.name}, so no case can be compared; give runs of the same suite"
                for run in strangers
            ]
        )


class OtherCases:
    """The cases of the other runs of a page; each can be taken once, by its id."""

    def __init__(self, runs: Sequence[RunColumn]) -> None:
        self._runs = [run.concluded for run in runs]
        self._places = [{case.id: at for at, case in enumerate(run.record.cases)} for run in self._runs]

    def take(self, case_id: str) -> tuple[CaseInRun | None, ...]:
        """Return the case in each run; None for a run without it, or if it was already taken."""
        found = []
        for run, places in zip(self._runs, self._places, strict=True):
            at = places.pop(case_id, None)
            found.append(None if at is None else CaseInRun(run.record.cases[at], run.verdict.cases[at]))
        return tuple(found)

    def take_rest(self) -> Iterator[tuple[CaseInRun | None, ...]]:
        """Yield each case that was not taken, as a tuple with an item for each run, as in `take`."""
        for places in self._places:
            for case_id in list(places):
                yield self.take(case_id)


def case_difference(
    case: CaseRecord | None, verdict: CaseVerdict | None, other_runs: Sequence[CaseInRun | None]
) -> Difference | None:
    """Return the difference of a case between the page's run and the other runs; None if verdicts and answers are
    equal."""
    outcomes = {None if verdict is None else verdict.outcome}
    outcomes.update(None if other is None else other.verdict.outcome for other in other_runs)
    if len(outcomes) > 1:
        return "verdict"
    answers = {_answers(one) for one in (case, *(None if other is None else other.case for other in other_runs))}
    return "answer" if len(answers) > 1 else None


def _answers(case: CaseRecord | None) -> tuple[str | None, ...]:
    return () if case is None else tuple(turn.response for turn in case.turns)


def column_name(path: str, file: str) -> str:
    """Return the name of a run's column: the path of its results without the file name."""
    return one_line(path.removesuffix(f"/{file}"), 200)
