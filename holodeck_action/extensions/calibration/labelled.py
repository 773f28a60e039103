"""Labelled answers judged now, by a metric of a suite: the labels bring the answers, and only judges are called."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from msgspec import Struct, structs

from holodeck_action import __version__
from holodeck_action.extensions.calibration.card import NO_THRESHOLD
from holodeck_action.extensions.calibration.labelled_answers import (
    LabelError,
    LabelledAnswer,
    Labels,
    about_metric,
    only_metric,
)
from holodeck_action.extensions.calibration.matching import Compared, Matched
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.judge_card import Configuration
from holodeck_action.record.record import (
    SCHEMA_VERSION,
    Provenance,
    Record,
    RunInfo,
    SuiteIdentity,
    TrialRecord,
    TurnRecord,
)
from holodeck_action.run.loading import Loaded, Surroundings, shown_folder, suite_place, with_lines
from holodeck_action.run.model_calls import model_environment
from holodeck_action.run.open_suites import Opened, open_all
from holodeck_action.run.preflight import Prepared, judge_problems, settings_problem
from holodeck_action.run.schedule import TrialKey
from holodeck_action.run.settings import Flags, SettingsError, merge
from holodeck_action.run.stages import Voice, around_all, stages_of
from holodeck_action.run.stored import StoredRun, StoredTrials
from holodeck_action.run.trial import Clock
from holodeck_action.scoring.scoring import TurnScorer
from holodeck_action.suite.applicability import missing_static_inputs
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.cases import FileInput
from holodeck_action.suite.model.targets import RecordedTarget
from holodeck_action.suite.turn_texts import TurnTexts
from holodeck_action.suite.values import Case, MetricSpec, Suite, Turn
from holodeck_action.text.plain import cut, one_line
from holodeck_action.workers.pool import WorkerPool

if TYPE_CHECKING:
    from holodeck_action.llm.limits.budget import Budget

_FILE = FileInput(path="labels", type="text")
"""Stands for the files whose texts the labels hold."""


class Answered(Struct, frozen=True):
    """What came of judging: what there is to compare, and why judging ended early (None: it did not).

    `configuration` is what decided the scores; None where no model grades.
    """

    matched: Matched
    stopped: str | None
    configuration: Configuration | None


def prepare_labelled(
    labels: Labels, metric: str | None, threshold: float | None, loaded: Loaded, flags: Flags, around: Surroundings
) -> tuple[Prepared, Labels, str]:
    """Make labelled answers ready to be judged.

    Args:
        labels: what humans say, with the answers.
        metric: the metric's name; None for the suite's only judged one.
        threshold: lowest passing score in place of the metric's own; None for its own.
        loaded: the suite.
        flags: the command line.
        around: the outside world.

    Returns:
        What can be opened, one case for each label that is about the metric in the order of the file, these labels,
        and the metric's name.

    Raises:
        ConfigurationError: there is no such metric, no model can grade by it, or a label lacks what it looks at.
    """
    suite = loaded.suite
    place = suite_place(suite, around.cwd)
    shown = shown_folder(suite.folder, around.cwd)
    try:
        specs = _specs_of(suite, metric or only_metric(labels), place)
        labels = about_metric(labels, specs[0].label, suite.name)
        if threshold is None:
            _check_thresholds(labels, specs, shown)
        cases = _cases(labels, suite, specs)
        settings = merge(suite, flags, loaded.environ)
    except LabelError as error:
        raise ConfigurationError(error.lines) from error
    except SettingsError as error:
        raise ConfigurationError(with_lines([settings_problem(suite, shown, error)], [loaded])) from error
    asked = replace(suite, cases=tuple(case for case, _ in cases))
    problems = judge_problems(asked, asked.cases, settings, loaded.environ, shown)
    if problems:
        raise ConfigurationError(with_lines(problems, [loaded]))
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
    prepared = Prepared(
        suite=asked,
        environ=loaded.environ,
        code=loaded.code,
        shown=shown,
        settings=settings,
        cases=asked.cases,
        target=RecordedTarget(path=labels.file),
        base_files=loaded.suite.checkout,
        target_files=Checkout.anywhere(around.cwd),
        python=loaded.python,
        stored=StoredRun(record, labels.digest, asked.cases, trials, ()),
    )
    return prepared, labels, specs[0].label


def judge_labelled(
    labels: Labels, metric: str, prepared: Prepared, budget: Budget | None, clock: Clock, stderr: TextIO
) -> Answered:
    """Ask the judge for its verdict on every labelled answer.

    Args:
        labels: what `prepared` was made of.
        metric: the metric's name.
        prepared: from `prepare_labelled`.
        budget: limits its calls beside the suite's own budget; None for no further limit.
        clock: the time.
        stderr: where notes go.

    Raises:
        ConfigurationError: the wire cannot be set up.
    """
    (opened,) = open_all([prepared], [None], budget, resume=False, besides=[None])

    def tell(sentence: str) -> None:
        stderr.write(f"note: {one_line(sentence, 1000)}\n")

    with around_all(stages_of([prepared.suite], Flags()), opened, Voice(tell, stderr)):
        trials = asyncio.run(_judge(opened, clock))
    for notice in opened.notices:
        tell(opened.redactor.text(notice))
    stopped = next((budget.refusal for budget in opened.budgets if budget.refusal is not None), None)
    compared = []
    for row, case, trial in zip(labels.rows, prepared.cases, trials, strict=True):
        (turn,) = trial.turns
        (evaluation,) = turn.evaluations
        compared.append(Compared(row, row.case or case.id, evaluation))
    evaluations = tuple(item.evaluation for item in compared)
    return Answered(Matched(metric, tuple(compared), evaluations), stopped, _configuration(opened, evaluations))


def _configuration(opened: Opened, evaluations: Sequence[Evaluation]) -> Configuration | None:
    if opened.judges is None:
        return None
    from holodeck_action.scoring.configurations import configuration_of, version_of

    (spec,) = opened.item.cases[0].turns[0].metrics
    environ = model_environment(opened.item)
    return configuration_of(opened.item.suite, spec, version_of(evaluations), environ, opened.redactor)


async def _judge(opened: Opened, clock: Clock) -> list[TrialRecord]:
    item = opened.item
    assert item.stored is not None
    suite = item.suite
    pool = WorkerPool(
        suite.folder,
        environ=item.environ,
        cwd=suite.checkout.cwd,
        size=item.settings.workers,
        code=item.code,
        redact=opened.redactor.text,
        interpreter=item.interpreter,
    )
    opened.prepare_judges()
    scorer = TurnScorer(
        item.suite,
        pool=pool,
        clock=clock.now,
        new_id=lambda: str(uuid.uuid4()),
        judges=opened.judges,
        reuse=opened.reuse,
    )
    trials = StoredTrials(item.stored, scorer, clock, opened.redactor)
    slots = asyncio.Semaphore(item.settings.concurrency)
    try:
        return await asyncio.gather(*(trials.run(case, 0, slots) for case in item.cases))
    finally:
        await opened.close()
        await pool.close()


def _specs_of(suite: Suite, metric: str | None, place: str) -> list[MetricSpec]:
    """Return the entries of the metric, in the order of the cases; at least one."""
    entries: dict[str, dict[int, MetricSpec]] = {}
    for case in suite.cases:
        for turn in case.turns:
            for spec in turn.metrics:
                if spec.config.enabled:
                    entries.setdefault(spec.label, {})[id(spec)] = spec
    names = [name for name, specs in entries.items() if any(spec.config.needs_judge for spec in specs.values())]
    if metric is None and len(names) == 1:
        return list(entries[names[0]].values())
    if metric is not None and metric in entries:
        return list(entries[metric].values())
    there = ", ".join(sorted(entries)) or "none"
    if metric is None:
        raise LabelError([f"{place}: say with --metric which one the labels are about (there are: {there})"])
    raise LabelError([f"{place}: no case has a metric called {metric!r} (there are: {there})"])


def _check_thresholds(labels: Labels, specs: Sequence[MetricSpec], shown: str) -> None:
    """Refuse what gives no verdict before anything is paid for it."""
    for spec in specs:
        if not spec.config.asserts or (labels.scores and spec.config.pass_mark is None):
            where = f"{shown}/{spec.mark}" if shown else str(spec.mark)
            raise LabelError([f"{where}: {spec.label} {NO_THRESHOLD}"])


def _cases(labels: Labels, suite: Suite, specs: Sequence[MetricSpec]) -> list[tuple[Case, TrialRecord]]:
    """Make a case with one turn, and a trial with its answer, of every label."""
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
            files=() if row.context is None else (_FILE,),
        )
        lacking = [*_lacking(turn, turn.metrics[0])]
        if lacking:
            problems.append(f"{where}: {specs[0].label} needs {' and '.join(lacking)}, which the row does not give")
            continue
        found.append(_case(row, turn, mark))
    if problems:
        raise LabelError(problems)
    return found


def _case(row: LabelledAnswer, turn: Turn, mark: SourceMark) -> tuple[Case, TrialRecord]:
    name = f"line {row.line}"
    digest = hashlib.sha256(repr((turn.input, row.response)).encode("utf-8", "surrogatepass")).hexdigest()
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
    """Return the turn of a row that holds the texts itself."""
    if any(spec.config != specs[0].config for spec in specs):
        raise LabelError(
            [f"column case: cases configure {specs[0].label} differently: name the case whose configuration counts"]
        )
    assert row.input is not None
    return Turn(0, TurnTexts(row.input, row.ground_truth), mark, metrics=(structs.replace(specs[0], inherited=False),))


def _case_turn(row: LabelledAnswer, suite: Suite, label: str) -> Turn:
    """Return the turn of the suite that a row names, with the one metric."""
    cases = [case for case in suite.cases if case.id == row.case]
    cases = cases or [case for case in suite.cases if case.name == row.case]
    if len(cases) != 1:
        raise LabelError(
            [f"column case: {len(cases) or 'no'} cases of the suite are called {cut(str(row.case), 80)!r}"]
        )
    turns = [
        (turn, spec)
        for turn in cases[0].turns
        for spec in turn.metrics
        if spec.label == label and spec.config.enabled and row.turn in (None, turn.index)
    ]
    if len(turns) != 1:
        how_many = f"{len(turns)} turns have" if turns else "no such turn has"
        raise LabelError([f"column {'turn' if turns or row.turn is not None else 'case'}: {how_many} metric {label}"])
    if row.response is None:
        raise LabelError(["column response: give the answer that is labelled, or a record of it with --results"])
    if row.trial is not None:
        raise LabelError(["column trial: only the answers of a record (--results) have trials"])
    ((turn, spec),) = turns
    for column, own in (("input", turn.input), ("ground_truth", turn.ground_truth)):
        given = getattr(row, column)
        if given is not None and given != own:
            raise LabelError([f"column {column}: the case has another text; leave out the case, or the column"])
    return structs.replace(turn, metrics=(structs.replace(spec, inherited=False),), expected_tools=None)


def _lacking(turn: Turn, spec: MetricSpec) -> Iterator[str]:
    """Name what a metric looks at that a label does not bring."""
    yield from missing_static_inputs(spec, turn)
    required = spec.config.needs
    if "retrieval_context" in required and turn.retrieval_context is None:
        yield "retrieval_context"
    if "retrieved_chunks" in required:
        yield "retrieved_chunks"
    if spec.config.reads_tool_calls:
        yield "tool_invocations"
