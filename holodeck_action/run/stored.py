"""Grades the answers of an earlier run again. Judges are called, but not the agent."""

from __future__ import annotations

from collections.abc import Sequence, Set
from contextlib import AbstractAsyncContextManager
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from holodeck_action.record.canonical import record_digest
from holodeck_action.record.evaluation import USER_ERROR, ErrorInfo
from holodeck_action.record.record import CaseRecord, TrialRecord, TurnRecord
from holodeck_action.record.result_files import Results
from holodeck_action.run.conversations import (
    Conversation,
    Scorer,
    case_span,
    conversation_turn,
    finish_trial,
    grade_turn,
    leave_ungraded,
    said_turn,
)
from holodeck_action.run.loading import LoadedSuite, with_lines, with_python
from holodeck_action.run.open_suites import secrets_of
from holodeck_action.run.options.settings import Settings
from holodeck_action.run.preflight import metric_class_problems, model_problems
from holodeck_action.run.run import Run, StoredRun
from holodeck_action.run.trial_plans import TrialKey
from holodeck_action.run.used_files import file_digest
from holodeck_action.scoring.scoring import Answer
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.configuration_errors import ConfigurationError, LocatedProblem
from holodeck_action.suite.model.targets import RecordedTarget
from holodeck_action.suite.values import Case, Turn
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.redaction import Redactor


def find_stored_run(path: GivenPath, results: Results, loaded: LoadedSuite) -> StoredRun:
    """Find the cases of a suite in the record of a results file, whose path is `path`.

    Raises:
        ConfigurationError: a case of the record is not in the suite, or has a different question or expectation there,
            or a file that it attaches has changed.
    """
    suite, redactor = loaded.suite, Redactor(secrets_of(loaded.suite, loaded.environ))
    known = {redactor.case_id(case.id, case.content_hash): case for case in suite.cases}
    record = results.record
    attached = {} if record.run.closure is None else record.run.closure.attached
    changed = {name for name, digest in attached.items() if file_digest(suite.checkout, name) != digest}
    chosen: dict[str, Case] = {}
    trials: dict[TrialKey, TrialRecord] = {}
    problems: list[str] = []
    for stored in record.cases:
        case = known.get(stored.id)
        problem = _mismatch(stored, case, changed)
        if problem is not None or case is None:
            problems.append(f"{path}: case {stored.id!r}: {problem}")
            continue
        # The run decided the number of trials, and how many must pass.
        chosen[case.id] = replace(case, repeat=stored.repeat, min_pass=stored.min_pass)
        for trial in stored.all_trials:
            trials[case.id, trial.index] = trial
    if problems:
        raise ConfigurationError(problems)
    return StoredRun(
        record=record,
        digest=results.record_digest or record_digest(record),
        cases=tuple(chosen[case.id] for case in suite.cases if case.id in chosen),
        trials=trials,
        left_out=tuple(redactor.text(case.name or case.id) for case in suite.cases if case.id not in chosen),
    )


def _mismatch(stored: CaseRecord, case: Case | None, changed_files: Set[str]) -> str | None:
    if case is None:
        return "it is no longer in the suite; run the suite again, or give the suite that was run"
    if case.content_hash != stored.content_hash:
        return (
            f"its input or expectations have changed in the suite ({case.mark}), so its stored answers do not "
            "fit; run it again"
        )
    changed = [file.path for turn in case.turns for file in turn.files if file.path in changed_files]
    if changed:
        return f"its file {changed[0]} has changed, so its stored answers do not fit; run it again"
    if any(
        [turn.index for turn in trial.turns] != [turn.index for turn in _recorded_turns(case, trial)]
        for trial in stored.all_trials
    ):
        return "its trials do not have the turns of the case; the record was edited"
    if (
        len({trial.index for trial in stored.all_trials}) < len(stored.all_trials)
        or not all(0 <= trial.index < stored.repeat for trial in stored.trials)
        or any(trial.index < stored.repeat for trial in stored.confirmation)
    ):
        return "the indexes of its trials are not those of a run; the record was edited"
    return None


def check_stored(
    path: str,
    loaded: LoadedSuite,
    stored: StoredRun,
    settings: Settings,
    problems: Sequence[str | LocatedProblem] = (),
) -> Run:
    """Return a run that grades stored answers, after the checks of its judges and metric classes.

    Args:
        path: the file with the answers.
        loaded: the suite whose metrics and judges apply.
        stored: the answers.
        settings: the settings of the suite.
        problems: problems that were found before.

    Raises:
        ConfigurationError: there are problems, or a judge or a metric class cannot be used.
    """
    loaded = with_python(loaded, RecordedTarget(path=path))
    run = stored_suite(path, loaded, stored, settings)
    found = [*problems, *model_problems(run), *metric_class_problems(run)]
    if found:
        raise ConfigurationError(with_lines(found, [loaded]))
    return run


def stored_suite(path: str, loaded: LoadedSuite, stored: StoredRun, settings: Settings) -> Run:
    """Return a run that grades stored answers, unchecked; see `check_stored`."""
    return Run(
        **asdict(loaded),
        # The run decided which trials count.
        settings=replace(settings, stop_when_decided=stored.record.stop_when_decided),
        cases=stored.cases,
        target=RecordedTarget(path=path),
        target_files=Checkout.unbounded(loaded.context.cwd),
        stored=stored,
    )


class StoredTrials(Struct, frozen=True):
    """Grades the trials of an earlier run instead of running them."""

    stored: StoredRun
    scorer: Scorer
    redactor: Redactor

    async def run(self, case: Case, index: int, slot: AbstractAsyncContextManager[Any]) -> TrialRecord:
        """Grade one trial of the record.

        Args:
            case: the case.
            index: the trial's index.
            slot: held while the trial is graded.

        Returns:
            The recorded trial with new evaluations and tool assertions. Only cancellation is raised.
        """
        trial = self.stored.trials[case.id, index]
        asked, conversation = _recorded_turns(case, trial), Conversation(case, index)
        async with slot:
            with case_span(case, index, self.redactor):
                turns: list[TurnRecord] = []
                for turn, stored in zip(asked, trial.turns, strict=True):
                    answer = conversation.add(turn, stored)
                    if case.simulation is not None and turn is asked[-1]:
                        answer = conversation.whole(turn)
                    turns.append(await self._grade(answer, stored))
        return finish_trial(replace(trial, turns=tuple(turns), evaluations=()), asked[-1], self.redactor)

    async def _grade(self, answer: Answer, stored: TurnRecord) -> TurnRecord:
        # If there is an answer, an error can only come from its grading.
        turn, error = answer.turn, stored.error
        if stored.response is not None and (error is None or error.type != USER_ERROR):
            error = self._missing_texts_error(turn, stored)
        record = replace(stored, source=turn.mark, error=error)
        if record.response is None or error is not None:
            return leave_ungraded(self.scorer, turn, record)
        return await grade_turn(self.scorer, answer, record, self.redactor.text)

    def _missing_texts_error(self, turn: Turn, stored: TurnRecord) -> ErrorInfo | None:
        """Return an error if a metric needs texts of the turn's files, which the record does not contain; else None."""
        has_texts = any(file.type != "image" for file in turn.files)
        if stored.context is not None or not has_texts or not self.scorer.uses_context(turn):
            return None
        message = "the record does not contain the texts of the turn's files, which a metric now needs; run it again"
        return ErrorInfo("StoredError", message, "no_file_texts")


def _recorded_turns(case: Case, trial: TrialRecord) -> Sequence[Turn]:
    """Return the turns of a recorded trial; with a simulated user, the last one has the case's expectations."""
    if case.simulation is None or not trial.turns:
        return case.turns
    said = [said_turn(case, place, turn.input, turn.said_by) for place, turn in enumerate(trial.turns)]
    return [*said[:-1], conversation_turn(case.turns[0], said[-1])]
