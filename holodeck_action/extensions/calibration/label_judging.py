"""Grades labelled answers with a metric of a suite. The answers come from the label file: the agent is not called."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, TextIO

from msgspec import Struct, structs

from holodeck_action import __version__
from holodeck_action.extensions.calibration.card import NO_PAIR_THRESHOLD, NO_THRESHOLD
from holodeck_action.extensions.calibration.label_matches import LabelledEvaluation, MatchedLabels
from holodeck_action.extensions.calibration.labels import (
    LabelError,
    LabelledAnswer,
    Labels,
    labels_of_metric,
    sole_metric,
)
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.judge_card import Configuration
from holodeck_action.record.record import (
    SCHEMA_VERSION,
    CaseRecord,
    Provenance,
    Record,
    RunInfo,
    SuiteIdentity,
    TrialRecord,
    TurnRecord,
)
from holodeck_action.run.loading import LoadedSuite
from holodeck_action.run.model_calls import model_environment
from holodeck_action.run.open_suites import open_suites
from holodeck_action.run.options.action_inputs import Flags
from holodeck_action.run.options.settings import merge
from holodeck_action.run.run import Run, StoredRun
from holodeck_action.run.schedule import Stop
from holodeck_action.run.stages import UserOutput, enter_all, stages_of
from holodeck_action.run.stored import check_stored
from holodeck_action.run.trial_plans import TrialKey
from holodeck_action.run.trials import grading_pool, trial_runner
from holodeck_action.seam import registry
from holodeck_action.suite.applicability import missing_static_inputs
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.cases import FileInput
from holodeck_action.suite.values import Case, MetricSpec, Suite, Turn
from holodeck_action.text.plain import cut, one_line

if TYPE_CHECKING:
    pass

_LABEL_FILE = FileInput(path="labels", type="text")
"""Placeholder file of a case: its text comes from the `context` column of the labels."""


class JudgedLabels(Struct, frozen=True):
    """The result of grading labelled answers.

    Attributes:
        matched: the labels, each with the judge's evaluation.
        stopped: reason for an early stop; None if all answers were judged.
        configuration: configuration of the judges; None if no model grades.
    """

    matched: MatchedLabels
    stopped: str | None
    configuration: Configuration | None


def prepare_labels(
    labels: Labels,
    metric: str | None,
    threshold: float | None,
    loaded: LoadedSuite,
) -> tuple[Run, Labels, str]:
    """Turn labelled answers into a suite that can be graded.

    Args:
        labels: the human labels, with the answers.
        metric: name of the metric; None if the suite has only one metric with a judge, which is used.
        threshold: lowest passing score that replaces the metric's threshold; None to keep it.
        loaded: the suite.

    Returns:
        The prepared suite, with one case for each label of the metric, in file order; the labels of the metric; the
        metric's name.

    Raises:
        ConfigurationError: the metric does not exist, no model can grade it, or a label lacks an input that the metric
            needs.
    """
    suite = loaded.suite
    try:
        specs = _metric_specs(suite, labels, metric or sole_metric(labels), loaded.place)
        of_pairs = specs[0].config.OF_PAIR
        labels = labels_of_metric(labels, specs[0].label, suite.name, compares_pairs=of_pairs)
        if of_pairs and threshold is not None:
            raise LabelError([f"{specs[0].label} {NO_PAIR_THRESHOLD}"])
        if threshold is None and not of_pairs:
            _check_thresholds(labels, specs, loaded.display_folder)
        cases = _build_cases(labels, suite, specs)
    except LabelError as error:
        raise ConfigurationError(error.lines) from error
    settings = merge(suite, loaded.flags, loaded.environ)
    if of_pairs:
        settings = structs.replace(settings, compared=True)
    judged_suite = structs.replace(suite, cases=tuple(case for case, _ in cases))
    trials: Mapping[TrialKey, TrialRecord] = {(case.id, 0): trial for case, trial in cases}
    record = Record(
        schema_version=SCHEMA_VERSION,
        suite=SuiteIdentity(suite.name, suite.file, suite.digest),
        provenance=Provenance(__version__, f"labels:{labels.file}"),
        gates=settings.gates,
        quarantine=(),
        stop_when_decided=False,
        cases=(),
        run=RunInfo("", "", "", 0.0, ""),
    )
    stored = StoredRun(record, labels.digest, judged_suite.cases, trials, ())
    loaded = structs.replace(loaded, suite=judged_suite, cards={})
    return check_stored(labels.file, loaded, stored, settings), labels, specs[0].label


def judge_labels(labels: Labels, metric: str, suite: Run, stderr: TextIO) -> JudgedLabels:
    """Return the judge's evaluations of all labelled answers.

    Args:
        labels: the labels from `prepare_labels`.
        metric: name of the metric.
        suite: the suite from `prepare_labels`.
        stderr: stream for notes.

    Raises:
        ConfigurationError: the connection to the judge cannot be set up.
    """
    (opened,) = open_suites([suite])

    def note(sentence: str) -> None:
        stderr.write(f"note: {one_line(sentence, 1000)}\n")

    with enter_all(stages_of([suite.suite], Flags()), opened.staged, UserOutput(note, stderr)):
        trials = asyncio.run(_grade_answers(opened, labels))
    for notice in opened.notices:
        note(opened.redactor.text(notice))
    stopped = next((budget.refusal for budget in opened.resources.budgets if budget.refusal is not None), None)
    compared = []
    for row, case, trial in zip(labels.rows, suite.cases, trials, strict=True):
        ((_, evaluation),) = trial.graded
        group = row.input if row.of_pair else row.case
        compared.append(LabelledEvaluation(row, group or case.id, evaluation))
    evaluations = tuple(item.evaluation for item in compared)
    return JudgedLabels(
        MatchedLabels(metric, tuple(compared), evaluations), stopped, _configuration(opened, evaluations)
    )


def _configuration(open_suite: Run, evaluations: Sequence[Evaluation]) -> Configuration | None:
    if open_suite.resources.judges is None:
        return None
    from holodeck_action.scoring.configurations import configuration_of, version_of

    (spec,) = open_suite.cases[0].turns[0].metrics
    environ = model_environment(open_suite)
    return configuration_of(open_suite.suite, spec, version_of(evaluations), environ, open_suite.redactor)


async def _grade_answers(open_suite: Run, labels: Labels) -> list[TrialRecord]:
    pool = grading_pool(open_suite)
    trials = trial_runner(open_suite, pool)
    slots = asyncio.Semaphore(open_suite.settings.concurrency)
    try:
        graded = await asyncio.gather(*(trials.run(case, 0, slots) for case in open_suite.cases))
        if not any(row.of_pair for row in labels.rows):
            return graded
        return await _judge_pairs(open_suite, graded, [row.other_response or "" for row in labels.rows])
    finally:
        await open_suite.close()
        await pool.close()


async def _judge_pairs(
    open_suite: Run, trials: Sequence[TrialRecord], other_answers: Sequence[str]
) -> list[TrialRecord]:
    """Return the trials with the judge's verdicts, each comparing a trial's answer with one of `other_answers`."""
    pairs = registry.pairs()
    assert pairs is not None
    assert open_suite.stored is not None
    cases = tuple(
        CaseRecord(
            id=open_suite.redactor.case_id(case.id, case.content_hash),
            name=case.name,
            content_hash=case.content_hash,
            source=case.mark,
            multi_turn=False,
            repeat=1,
            min_pass=1,
            planned_evaluations=1,
            not_applicable=0,
            asserting=False,
            trials=(trial,),
        )
        for case, trial in zip(open_suite.cases, trials, strict=True)
    )
    base = tuple(
        structs.replace(case, trials=(_with_response(trial, open_suite.redactor.text(other)),))
        for case, trial, other in zip(cases, trials, other_answers, strict=True)
    )
    record = open_suite.stored.record
    stop = Stop()
    with ExitStack() as scope:
        for budget in open_suite.resources.budgets:
            scope.enter_context(budget.notify_refusal(stop.drain))
        judged: Record = await registry.resolve(pairs.judge)(
            open_suite, structs.replace(record, cases=cases), structs.replace(record, cases=base), stop
        )
    return [case.trials[0] for case in judged.cases]


def _with_response(trial: TrialRecord, response: str) -> TrialRecord:
    (turn,) = trial.turns
    return structs.replace(trial, turns=(structs.replace(turn, response=response),))


def _metric_specs(suite: Suite, labels: Labels, metric: str | None, place: str) -> list[MetricSpec]:
    """Return the suite's entries for a metric (at least one), in the order of the cases."""
    labelled = {row.of_pair for row in labels.rows}
    entries: dict[str, dict[int, MetricSpec]] = {}
    for case in suite.cases:
        for turn in case.turns:
            for spec in turn.metrics:
                if spec.config.enabled:
                    entries.setdefault(spec.label, {})[id(spec)] = spec
    names = [
        name
        for name, specs in entries.items()
        if any(spec.config.needs_judge and spec.config.OF_PAIR in labelled for spec in specs.values())
    ]
    if metric is None and len(names) == 1:
        return list(entries[names[0]].values())
    if metric is not None and metric in entries:
        return list(entries[metric].values())
    there = ", ".join(sorted(entries)) or "none"
    if metric is None:
        raise LabelError([f"{place}: use --metric to name the metric that the labels are about (there are: {there})"])
    raise LabelError([f"{place}: no case has the metric {metric!r} (there are: {there})"])


def _check_thresholds(labels: Labels, specs: Sequence[MetricSpec], display_path: str) -> None:
    """Raise LabelError, before any paid call, if the metric has no threshold to turn scores into verdicts."""
    for spec in specs:
        if not spec.config.asserts or (labels.are_scores and spec.config.pass_mark is None):
            where = f"{display_path}/{spec.mark}" if display_path else str(spec.mark)
            raise LabelError([f"{where}: {spec.label} {NO_THRESHOLD}"])


def _build_cases(labels: Labels, suite: Suite, specs: Sequence[MetricSpec]) -> list[tuple[Case, TrialRecord]]:
    """Return, for each label, a case with one turn and a trial with the labelled answer."""
    found: list[tuple[Case, TrialRecord]] = []
    problems: list[str] = []
    for row in labels.rows:
        mark = SourceMark(labels.file, row.line, 1)
        where = f"{labels.file}:{row.line}"
        try:
            turn = _text_turn(row, mark, specs) if row.case is None else _case_turn(row, suite, specs[0].label)
        except LabelError as error:
            problems += [f"{where}: {problem}" for problem in error.lines]
            continue
        turn = structs.replace(
            turn,
            index=0,
            mark=mark,
            retrieval_context=turn.retrieval_context if row.retrieval_context is None else row.retrieval_context,
            files=() if row.context is None else (_LABEL_FILE,),
        )
        lacking = [*_missing_inputs(turn, turn.metrics[0])]
        if lacking:
            problems.append(f"{where}: {specs[0].label} needs {' and '.join(lacking)}, which the row does not contain")
            continue
        found.append(_build_case(row, turn, mark))
    if problems:
        raise LabelError(problems)
    return found


def _build_case(row: LabelledAnswer, turn: Turn, mark: SourceMark) -> tuple[Case, TrialRecord]:
    name = f"line {row.line}"
    digest = hashlib.sha256(
        repr((turn.input, row.response, row.other_response)).encode("utf-8", "surrogatepass")
    ).hexdigest()
    case = Case(id=f"line-{row.line}", name=name, content_hash=digest, mark=mark, turns=(turn,), multi_turn=False)
    answered = TurnRecord(
        index=0,
        input=turn.input,
        source=mark,
        ground_truth=turn.ground_truth,
        response=row.response,
        retrieval_context=turn.retrieval_context,
        context=row.context,
    )
    return case, TrialRecord(0, (answered,))


def _text_turn(row: LabelledAnswer, mark: SourceMark, specs: Sequence[MetricSpec]) -> Turn:
    """Return the turn for a row that contains input and answer instead of naming a case."""
    if any(spec.config != specs[0].config for spec in specs):
        raise LabelError(
            [
                f"cases configure {specs[0].label} differently: give --results with the record of their run"
                if row.of_pair
                else f"cases configure {specs[0].label} differently: in the column `case`, name the case whose "
                "configuration applies to this row"
            ]
        )
    assert row.input is not None
    return Turn(0, row.input, mark, row.ground_truth, metrics=(structs.replace(specs[0], inherited=False),))


def _case_turn(row: LabelledAnswer, suite: Suite, label: str) -> Turn:
    """Return the suite's turn that a row names, with no other metric than the one that the labels are about."""
    cases = [case for case in suite.cases if case.id == row.case]
    cases = cases or [case for case in suite.cases if case.name == row.case]
    if len(cases) != 1:
        raise LabelError(
            [f"column `case`: {len(cases) or 'no'} cases of the suite are named {cut(str(row.case), 80)!r}"]
        )
    turns = [
        (turn, spec)
        for turn in cases[0].turns
        for spec in turn.metrics
        if spec.label == label and spec.config.enabled and row.turn in (None, turn.index)
    ]
    if len(turns) != 1:
        how_many = f"{len(turns)} turns have" if turns else "no such turn has"
        raise LabelError(
            [f"column `{'turn' if turns or row.turn is not None else 'case'}`: {how_many} the metric {label}"]
        )
    if row.response is None:
        raise LabelError(["column `response`: give the labelled answer, or its record with --results"])
    if row.trial is not None:
        raise LabelError(["column `trial`: only recorded answers (--results) have trials; leave the column out"])
    ((turn, spec),) = turns
    for column, own in (("input", turn.input), ("ground_truth", turn.ground_truth)):
        given = getattr(row, column)
        if given is not None and given != own:
            raise LabelError(
                [f"column `{column}`: the case has another text; leave out the column `case`, or `{column}`"]
            )
    return structs.replace(turn, metrics=(structs.replace(spec, inherited=False),), expected_tools=None)


def _missing_inputs(turn: Turn, spec: MetricSpec) -> Iterator[str]:
    """Yield the names of inputs that a metric needs and that are missing in the turn of a label."""
    yield from missing_static_inputs(spec, turn)
    required = spec.config.needs
    if "retrieval_context" in required and turn.retrieval_context is None:
        yield "retrieval_context"
    if "retrieved_chunks" in required:
        yield "retrieved_chunks"
    if spec.config.reads_tool_calls:
        yield "tool_invocations"
