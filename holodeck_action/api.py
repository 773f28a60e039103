"""The public functions of the package: they evaluate suites from Python, as `holodeck-action run` does."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    from holodeck_action.text.platforms import WINDOWS

    raise ImportError(WINDOWS)

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from io import StringIO, TextIOBase
from pathlib import Path
from typing import Any, TextIO, TypedDict, TypeVar, Unpack, cast, overload

from msgspec.structs import replace

from holodeck_action.commands.suites import evaluate as run_suites
from holodeck_action.decide.case_verdicts import judge_evaluation
from holodeck_action.decide.compare.comparing import compare as compare_records
from holodeck_action.decide.compare.comparison import Comparison
from holodeck_action.decide.decision import Terms, decide
from holodeck_action.decide.survey import RecordTotals, judge_cases
from holodeck_action.decide.verdict import MetricVerdict, Verdict
from holodeck_action.record.disk import DISK
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.folder import Claims, FolderError
from holodeck_action.record.parsed_record import RecordError
from holodeck_action.record.record import BaseRun, CaseRecord, Record, RecordedBaseline, TrialRecord, TurnRecord
from holodeck_action.record.result_files import read_record as read_results
from holodeck_action.reports.conclusion import Conclusion
from holodeck_action.run.caller import Caller
from holodeck_action.run.loading import load_one_suite
from holodeck_action.run.one_answer import score_answer
from holodeck_action.run.options.action_inputs import INPUTS
from holodeck_action.run.options.input_kinds import FOLDER, Kind
from holodeck_action.run.options.request import flags_from
from holodeck_action.run.preflight import prepare_suites
from holodeck_action.run.ui import Ui
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.model.policy import Baseline
from holodeck_action.suite.model.providers import LLMProvider
from holodeck_action.suite.model.targets import CallableTarget
from holodeck_action.suite.values import Case, Suite, Turn
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.workers.threads import in_daemon_thread

__all__ = [
    "AnswerFacts",
    "Case",
    "CaseRecord",
    "Comparison",
    "ConfigurationError",
    "Evaluation",
    "LLMProvider",
    "MetricVerdict",
    "Record",
    "RunOptions",
    "Suite",
    "TrialRecord",
    "Turn",
    "TurnRecord",
    "Verdict",
    "compare",
    "evaluate",
    "load_suite",
    "read_record",
    "score",
    "verdict_of",
]

T = TypeVar("T")
AnyPath = str | os.PathLike[str]
_ONE_SUITE = "only one can be loaded"
_INPUT_KINDS = {item.setting: item.kind for item in INPUTS}


def load_suite(suite: AnyPath = "agent.yaml", *, environ: Mapping[str, str] | None = None) -> Suite:
    """Load a suite with its cases.

    Args:
        suite: path of an agent.yaml, or of the folder that contains it.
        environ: environment variables that the suite's files may use; None to use those of this process.

    Raises:
        ConfigurationError: the suite is invalid (see `lines`), or the workflow's event forbids running its code.
    """
    return load_one_suite(_path(suite), _caller(environ, None).suite_context(), _ONE_SUITE).suite


class RunOptions(TypedDict, total=False):
    """The options of a run, which are keyword arguments of `evaluate`; None is as good as no value.

    Attributes:
        cases: globs that select cases by id or name; empty to run all cases.
        tags: tags; cases with at least one of them are selected; empty to run all cases.
        limit: maximum number of cases.
        repeat: number of trials for each case.
        min_pass: number of trials of each case that must pass.
        concurrency: maximum number of trials at the same time.
        max_cost_usd: budget for model calls, in US dollars.
        max_tokens: budget for model calls, in tokens.
        run_timeout: maximum duration of the run, in seconds.
        record: folder in which to record all model calls.
        replay: folder of recorded model calls to answer from; no model is called.
        cache: folder in which to store models' answers for later runs.
        output_dir: folder for the results and reports of `holodeck-action run`; without it, no files are written.
    """

    cases: Iterable[str] | None
    tags: Iterable[str] | None
    limit: int | None
    repeat: int | None
    min_pass: int | None
    concurrency: int | None
    max_cost_usd: float | None
    max_tokens: int | None
    run_timeout: float | None
    record: AnyPath | None
    replay: AnyPath | None
    cache: AnyPath | None
    output_dir: AnyPath | None


_SETTINGS = {"cases": "case_globs", "run_timeout": "run_timeout_s"}
"""Names of settings that differ from those of options here."""


def evaluate(
    suite: AnyPath | Suite = "agent.yaml",
    target: str | Callable[..., Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    progress: TextIO | None = None,
    **options: Unpack[RunOptions],
) -> Record:
    """Evaluate a suite and return the record of the run.

    It also works while an event loop runs, as in a notebook.

    Args:
        suite: path of an agent.yaml or of its folder, or a suite from `load_suite`.
        target: the target that answers the cases: a string as for `--target`, or a callable. A callable, sync or async,
            receives the conversation as `[{"role": ..., "content": ...}]`, and the turn's request if it has a second
            parameter without a default. It returns the answer as a string, a reply mapping, or an iterator over parts
            of an answer (docs/targets.md). It runs in this process; sync callables run in threads, up to `concurrency`
            at once. None to use the target in the policy file, or else the suite's own model.
        environ: environment variables; None to use those of this process.
        progress: stream for progress and notes, such as `sys.stderr`; None to discard them.
        options: options of the run, by the names of `RunOptions`, such as `repeat=3`.

    Raises:
        ConfigurationError: an argument, the suite or its target cannot be used (then nothing has run), or the results
            cannot be written.
    """
    caller = _caller(environ, progress)
    _check_names("evaluate", options, RunOptions)
    given: dict[str, Any] = {"target": target}
    if not isinstance(target, str | None):
        given["target"] = CallableTarget(called=target, name=_callable_name(target))
    problems = []
    for name, value in options.items():
        if value is None:
            continue
        setting = _SETTINGS.get(name, name)
        try:
            given[setting] = _read_option(_INPUT_KINDS[setting], value, caller.cwd)
        except ValueError:
            problems.append(f"{name}: {value!r} is not allowed (allowed: {_INPUT_KINDS[setting].allowed})")
    if problems:
        raise ConfigurationError(problems)
    return _run_outside_loop(partial(_run_suite, suite, given, caller))


class AnswerFacts(TypedDict, total=False):
    """The facts about an answer, which are keyword arguments of `score`; None is as good as no value.

    Attributes:
        input: the question; required if a judge grades the answer.
        ground_truth: the expected answer.
        retrieval_context: the retrieved texts.
        retrieved_chunks: the retrieved chunks in rank order, each `{"id": ..., "text": ..., "score": ...}`.
        ground_truth_chunk_ids: the ids of the relevant chunks, or the gain of each by id.
        tool_invocations: the tool calls in order, each `{"name": ..., "args": ..., "result": ..., "error": ...}`.
        expected_tools: the expected tool calls, as `expected_tools` in agent.yaml.
        expected_trajectory: the expected calls of the conversation, as `expected_trajectory` in the policy file.
    """

    input: str | None
    ground_truth: str | None
    retrieval_context: Sequence[str] | None
    retrieved_chunks: Sequence[Mapping[str, Any]] | None
    ground_truth_chunk_ids: Sequence[str] | Mapping[str, float] | None
    tool_invocations: Sequence[Mapping[str, Any]] | None
    expected_tools: Sequence[str | Mapping[str, Any]] | Mapping[str, Any] | None
    expected_trajectory: Sequence[Mapping[str, Any]] | None


_FACTS_OF_REPLY = ("retrieval_context", "retrieved_chunks", "tool_invocations")


def score(
    metric: Metric,
    response: str | Mapping[str, Any],
    *,
    model: LLMProvider | None = None,
    environ: Mapping[str, str] | None = None,
    **facts: Unpack[AnswerFacts],
) -> Evaluation:
    """Score one answer by one metric, as a run does.

    It also works while an event loop runs, as in a notebook.

    Args:
        metric: a metric of `holodeck_action.metrics`, or of another package.
        response: the answer to score.
        model: the judge of a metric that names no judge; for `Similar`, any model of the embedding model's provider.
            None if the metric names its model or calls no model.
        environ: environment variables with keys and URLs of models; None to use those of this process.
        facts: facts about the answer, by the names of `AnswerFacts`, such as `input="Where is it?"`.

    Returns:
        The evaluation; if it has no score, its `error` has the reason.

    Raises:
        ValueError: an argument cannot be used; the message names it.
    """
    _check_names("score", facts, AnswerFacts)
    known: dict[str, Any] = {name: facts.get(name) for name in AnswerFacts.__annotations__}
    reply = {"response": response} | {name: known.pop(name) for name in _FACTS_OF_REPLY}
    work = partial(asyncio.run, score_answer(metric, known, reply, model, os.environ if environ is None else environ))
    return _run_outside_loop(work)


@overload
def verdict_of(record: Record, *, base: Record | None = None) -> Verdict: ...


@overload
def verdict_of(record: Evaluation) -> MetricVerdict: ...


def verdict_of(record: Record | Evaluation, *, base: Record | None = None) -> Verdict | MetricVerdict:
    """Judge a run's record by the run's gates, or a single evaluation by the metric's threshold.

    Args:
        record: the record of a run, or an evaluation from `score`.
        base: the record of the run to compare with, or None. Without a base, the verdict is incomplete if the suite's
            policy file requires one.
    """
    if isinstance(record, Evaluation):
        return judge_evaluation(record)
    surveyed = RecordTotals(record)
    if base is not None:
        settings = Baseline() if record.baseline is None else record.baseline.settings
        record = replace(record, baseline=RecordedBaseline(settings, _base_run(base)))
    return decide(record, Terms(base=base), surveyed)


def compare(base: Record, head: Record) -> Comparison:
    """Compare two runs case by case, by the `baseline` settings of the head.

    Args:
        base: the record of the earlier run.
        head: the record of the later run, whose changes are judged.
    """
    settings = Baseline() if head.baseline is None else head.baseline.settings
    return compare_records(base, head, settings, base_run=_base_run(base), judged=judge_cases(head), gates=head.gates)


def read_record(results: AnyPath) -> Record:
    """Read the record of a run.

    Args:
        results: path of a results.json, or of the output folder of a run.

    Raises:
        ConfigurationError: the record is missing or cannot be read.
    """
    try:
        return read_results(GivenPath(Path(results), Path.cwd()))
    except RecordError as error:
        raise ConfigurationError([str(error)]) from None


def _run_outside_loop(function: Callable[[], T]) -> T:
    """Call a function that runs its own event loop, and return its result.

    If this thread already runs an event loop, the function is called in another thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return function()
    return in_daemon_thread(function).result()


class _NullStream(TextIOBase):
    """A stream that discards all text."""

    def write(self, text: str) -> int:
        return len(text)


def _caller(environ: Mapping[str, str] | None, progress: TextIO | None) -> Caller:
    nowhere = cast("TextIO", _NullStream())
    known = os.environ if environ is None else environ
    return Caller(known, Path.cwd(), StringIO(), nowhere, nowhere if progress is None else progress)


def _base_run(base: Record) -> BaseRun:
    return BaseRun("record", base.provenance.commit, name="the base")


def _callable_name(target: object) -> str:
    """Return the name of a callable, for messages and the record."""
    named = target if hasattr(target, "__qualname__") else type(target)
    return f"{named.__module__}:{named.__qualname__}"


def _check_names(function: str, given: Iterable[str], allowed: type) -> None:
    """Raise TypeError for a keyword argument without a declaration, as Python does for other functions."""
    for name in given:
        if name not in allowed.__annotations__:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def _read_option(kind: Kind, value: Any, cwd: Path) -> Any:
    """Return the value of a setting; raise ValueError if it is not allowed."""
    if kind is FOLDER:
        return GivenPath(Path(value), cwd)
    if kind.many:
        return tuple(value)
    kind.read(str(value))
    return value


def _path(suite: AnyPath | Suite) -> str:
    return os.fspath(suite.folder / suite.file if isinstance(suite, Suite) else suite)


def _run_suite(suite: AnyPath | Suite, values: Mapping[str, Any], caller: Caller) -> Record:
    found: list[Conclusion] = []
    flags = flags_from(values)
    try:
        with Claims(DISK) as claims:
            claims.clear(flags.output_dir)
            loaded = load_one_suite(_path(suite), caller.suite_context(flags), _ONE_SUITE, grades=True)
            if isinstance(suite, Suite) and loaded.suite != suite:
                place = suite.folder / suite.file
                raise ConfigurationError([f"{place}: differs from what load_suite returned; load it again"])
            progress = caller.progress_display()
            ui = Ui(caller, flags, claims, progress, flags.output_dir, on_conclusion=found.append)
            done = run_suites(prepare_suites([loaded]), ui)
    except FolderError as error:
        raise ConfigurationError([str(error)]) from None
    if not done.suites[0].written:
        raise ConfigurationError([f"{flags.output_dir}: the results could not be written"])
    return found[0].record
