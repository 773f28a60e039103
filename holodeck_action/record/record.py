"""`Record`: everything that a run did and measured, enough to decide and report without further calls.

Serialised by `holodeck_action.record.result_files`. Mappings hold JSON values only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from holodeck_action.record.closure import Closure
from holodeck_action.record.evaluation import ErrorInfo, Evaluation
from holodeck_action.record.facts import Amount, Count, Fact, Known, Measured, Rating, Unknown, list_fact, measured_fact
from holodeck_action.record.judge_card import CardSummary, Configuration
from holodeck_action.record.judge_probe import JudgeProbe
from holodeck_action.record.own_terms import OwnTerms
from holodeck_action.record.serialization import always_written
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.judging import Consistency
from holodeck_action.suite.model.policy import Baseline, Gates, QuarantineEntry, Reaction
from holodeck_action.suite.model.simulation import Speaker

SCHEMA_VERSION = 3
FIRST_VERSION = 1
"""Still readable. It has no digest and no selected cases, and empty lists for unknown tool calls. Up to version 2, the
last turn of a trial has the evaluations of the whole conversation."""


class ToolInvocation(Struct, frozen=True, gc=False):
    """One tool call of the agent. `bytes` is the size of the result's text, `duration_ms` the time of the call."""

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    result: Any = None
    bytes: Count | None = None
    duration_ms: Amount | None = None
    error: str | None = None


class RetrievedChunk(Struct, frozen=True, gc=False):
    """One retrieved chunk, in rank order; `score` is on the retriever's own scale."""

    id: str
    text: str | None = None
    score: Rating | None = None


class ToolAssertion(Struct, frozen=True, gc=False):
    """Result of one `expected_tools` entry (or of the list as a whole, for `[]` and `order`).

    Attributes:
        expected: readable form, such as `subtract(a=60.94)`.
        matched: whether the expectation holds; None if the target does not report tool calls.
        matched_call_index: index of the first matching call in the turn; -1 if there is none.
        reason: why the expectation does not hold or is unknown, or a note that only failed calls match; None otherwise.
    """

    expected: str
    matched: bool | None
    matched_call_index: int
    reason: str | None = None

    @property
    def problem(self) -> str:
        """The reason why the expectation does not hold, as a sentence."""
        return self.reason or f"expected {self.expected}"


class ModelUsage(Struct, frozen=True, omit_defaults=True):
    """The usage of one of several models in a turn. None means unknown, not zero; `estimated` is as in `Usage`."""

    model: str | None = always_written(None)
    prompt_tokens: Count | None = always_written(None)
    completion_tokens: Count | None = always_written(None)
    cached_tokens: Count | None = always_written(None)
    reasoning_tokens: Count | None = always_written(None)
    cost_usd: Amount | None = always_written(None)
    estimated: bool = False


class Usage(Struct, frozen=True, gc=False, omit_defaults=True):
    """Model usage of a turn. None means unknown, not zero.

    `cached_tokens` are part of `prompt_tokens`, `reasoning_tokens` of `completion_tokens`. `models` holds the usage of
    each of several models; the other fields are the sums. `estimated` means that the cost, or a part of it, is computed
    from list prices and not reported by the agent.
    """

    prompt_tokens: Count | None = always_written(None)
    completion_tokens: Count | None = always_written(None)
    cost_usd: Amount | None = always_written(None)
    cached_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    models: tuple[ModelUsage, ...] = ()
    estimated: bool = False

    @property
    def tokens(self) -> int | None:
        """Total tokens of prompts and answers; None if either number is unknown."""
        if self.prompt_tokens is None or self.completion_tokens is None:
            return None
        return self.prompt_tokens + self.completion_tokens


class Step(Struct, frozen=True, gc=False, omit_defaults=True):
    """A call of a model or a tool in a turn.

    Attributes:
        tool: position of the call in the turn's `tool_invocations`, which have its duration; None for a model.
        model: name of the model; None if unknown, and for a tool.
        start_ms: milliseconds from the start of the turn, or else from the first time that the agent reports, to the
            call; None if unknown, as after an answer from a recording.
        duration_ms: milliseconds of a model's call; None if unknown.
    """

    tool: Count | None = None
    model: str | None = None
    start_ms: Amount | None = always_written(None)
    duration_ms: Amount | None = None


class Timing(Struct, frozen=True, gc=False, omit_defaults=True):
    """Start and end (ISO 8601, UTC) and durations; volatile.

    `model_ms` is the working time of the suite's own model in a turn, without waiting, or the time that another agent
    reports. Recorded and cached calls keep their original time. `first_token_ms` is the time until the answer began.
    None means unknown, such as the duration of an answer from a transcript. `steps` are the calls of a turn in order
    of time; empty if the order is unknown.
    """

    started_at: str
    duration_ms: Amount | None
    model_ms: Amount | None = always_written(None)
    first_token_ms: Amount | None = None
    steps: tuple[Step, ...] = ()


class TurnRecord(Struct, frozen=True, gc=False, omit_defaults=True):
    """One exchange: the question, the answer and its evaluations.

    `error` is set if the agent could not answer; `skipped` is the reason if the turn was not run because an earlier one
    failed. `tool_invocations` is None if the target does not report tool calls, and empty if none was made.
    `retrieval_context` is the context that the metrics received (accumulated over the conversation), `context` the
    texts of the turn's files, one each, without images; None if there are no files or they were not read.
    `finish_reason` says why the model stopped; the suite's own: `stop`, `length` (at `max_tokens`) or `refusal`.
    `fallback_model` is the name of the fallback model if it gave the answer. `model`, `messages` (the messages that the
    turn adds to the conversation) and `metadata` are reported by agents of other targets; None if unknown. `said_by`
    tells who wrote the input of a simulated user: the suite (`script`) or the model; empty if no user is simulated.
    """

    index: int
    input: str
    source: SourceMark
    ground_truth: str | None = always_written(None)
    response: str | None = always_written(None)
    tool_invocations: tuple[ToolInvocation, ...] | None = always_written(None)
    tool_assertions: tuple[ToolAssertion, ...] = always_written(())
    retrieval_context: tuple[str, ...] | None = always_written(None)
    retrieved_chunks: tuple[RetrievedChunk, ...] | None = always_written(None)
    context: tuple[str, ...] | None = always_written(None)
    usage: Usage | None = always_written(None)
    evaluations: tuple[Evaluation, ...] = always_written(())
    error: ErrorInfo | None = always_written(None)
    skipped: str | None = always_written(None)
    timing: Timing | None = always_written(None)
    finish_reason: str | None = always_written(None)
    fallback_model: str | None = always_written(None)
    model: str | None = None
    messages: tuple[Mapping[str, Any], ...] | None = None
    metadata: Mapping[str, Any] | None = None
    said_by: Speaker = ""

    @property
    def calls(self) -> Fact[tuple[ToolInvocation, ...]]:
        """The tool calls of the turn."""
        return list_fact(self.tool_invocations, "the target does not report tool calls")

    @property
    def chunks(self) -> Fact[tuple[RetrievedChunk, ...]]:
        """The chunks retrieved in the conversation so far."""
        return list_fact(self.retrieved_chunks, "the target does not report retrieved chunks")

    @property
    def texts(self) -> Fact[tuple[str, ...]]:
        """The retrieved texts that metrics receive."""
        return list_fact(self.retrieval_context, "the target does not report retrieved chunks")

    @property
    def took_ms(self) -> Measured[float]:
        """Milliseconds that the answer took: the working time of the models if known, else the time from question to
        answer."""
        timing = self.timing
        if self.response is None or timing is None:
            return Unknown("there is no answer" if self.response is None else "it was not measured")
        return measured_fact(timing.duration_ms if timing.model_ms is None else timing.model_ms, "it was not measured")

    @property
    def began_ms(self) -> Measured[float]:
        """Milliseconds until the answer began."""
        if self.response is None or self.timing is None:
            return Unknown("there is no answer" if self.response is None else "it was not measured")
        return measured_fact(self.timing.first_token_ms, "it was not measured")

    @property
    def tokens(self) -> Measured[int]:
        """Number of tokens in the prompts and answers of the agent's models."""
        return measured_fact((self.usage or Usage()).tokens, "the target does not report its tokens")

    @property
    def cost_usd(self) -> Measured[float]:
        """Cost of the agent's models in US dollars."""
        return measured_fact((self.usage or Usage()).cost_usd, "the target does not report its cost")


class SimulatedUser(Struct, frozen=True, omit_defaults=True):
    """A case's user, played by a model.

    Attributes:
        model: the model, such as `openai/gpt-6-luna`.
        temperature: the model's temperature; None if the provider's default applies.
        prompt_digest: SHA-256, in hex, of the prompt by which the model plays a user, without the case's texts.
        goal: what the user wants.
        persona: who the user is and how the user talks; empty if the case does not say it.
        knows: what the user knows; empty if the case does not say it.
    """

    model: str
    temperature: float | None
    prompt_digest: str
    goal: str
    persona: str = ""
    knows: str = ""


class UserCalls(Struct, frozen=True, omit_defaults=True):
    """The calls to the model that plays the user in one trial, and their usage.

    Attributes:
        seed: the seed in the model's requests; None if the provider accepts no seed.
        calls: number of the model's answers.
        asked_again: number of invalid messages, each followed by another call.
        ended: why the conversation ended, as a clause; empty if an error ended it.
        usage: usage of the calls; None if no call was answered.
    """

    seed: int | None
    calls: int
    asked_again: int
    ended: str
    usage: Usage | None = None


class TrialRecord(Struct, frozen=True, gc=False, omit_defaults=True):
    """One repetition of a case; `error` is set if the whole trial failed, such as at its deadline.

    `user` has the calls to the model that plays the user; None if no user is simulated. `evaluations` has the results
    of metrics with `scope: conversation`; they are pending if a turn has an error.
    """

    index: int
    turns: tuple[TurnRecord, ...]
    error: ErrorInfo | None = always_written(None)
    timing: Timing | None = always_written(None)
    user: UserCalls | None = None
    evaluations: tuple[Evaluation, ...] = ()

    def __post_init__(self) -> None:
        """Check that a conversation with evaluations has a turn."""
        if self.evaluations and not self.turns:
            raise ValueError("a trial without turns has evaluations")

    @property
    def graded(self) -> Iterator[tuple[int, Evaluation]]:
        """Every evaluation with its turn's index; evaluations of the whole conversation have the last turn's."""
        for turn in self.turns:
            for evaluation in turn.evaluations:
                yield turn.index, evaluation
        for evaluation in self.evaluations:
            yield self.turns[-1].index, evaluation

    def with_conversation(self, is_moved: Callable[[Evaluation], bool]) -> TrialRecord:
        """Return a copy in which the last turn's evaluations of the whole conversation are moved to the trial.

        Args:
            is_moved: tells whether an evaluation of the last turn grades the whole conversation.
        """
        if not self.turns:
            return self
        *earlier, last = self.turns
        moved = tuple(each for each in last.evaluations if is_moved(each))
        if not moved:
            return self
        kept = tuple(each for each in last.evaluations if not is_moved(each))
        return replace(self, turns=(*earlier, replace(last, evaluations=kept)), evaluations=(*self.evaluations, *moved))

    @property
    def took_ms(self) -> Measured[float]:
        """Milliseconds that the agent worked on the trial: the sum over its turns. The start of the agent's program is
        excluded."""
        return _sum_of(turn.took_ms for turn in self.turns if turn.skipped is None)


class CaseRecord(Struct, frozen=True, gc=False, omit_defaults=True):
    """One case with its finished trials.

    `planned_evaluations` is the number of evaluations that one trial should yield: a turn's tool assertions count as
    one, and disabled or inapplicable metrics are excluded; `not_applicable` is the number of these metrics. `asserting`
    is False if nothing can fail the case. `source` is the position of the case's start, and `last` the position of its
    last value, None if unknown. `confirmation` holds the further trials that confirm a regression (`baseline.confirm`);
    their indexes follow those of `trials`, and they count only for the gate on regressed cases. `user` is set if a
    model plays the user; the last turn of each trial then has the evaluations of its answers.
    """

    id: str
    name: str | None
    content_hash: str
    source: SourceMark
    multi_turn: bool
    repeat: int
    min_pass: int
    planned_evaluations: int
    not_applicable: int
    asserting: bool
    tags: tuple[str, ...] = always_written(())
    weight: float = always_written(1.0)
    trials: tuple[TrialRecord, ...] = always_written(())
    last: SourceMark | None = always_written(None)
    confirmation: tuple[TrialRecord, ...] = ()
    user: SimulatedUser | None = None

    @property
    def all_trials(self) -> tuple[TrialRecord, ...]:
        """The finished trials, and those that confirm a regression."""
        return self.trials + self.confirmation

    @property
    def turns(self) -> Iterator[TurnRecord]:
        """The turns of all finished trials."""
        return (turn for trial in self.trials for turn in trial.turns)

    @property
    def graded(self) -> Iterator[tuple[int, Evaluation]]:
        """Every evaluation of all finished trials; see `TrialRecord.graded`."""
        return (each for trial in self.trials for each in trial.graded)

    @property
    def evaluations(self) -> Iterator[Evaluation]:
        """The evaluations of all finished trials."""
        return (evaluation for _, evaluation in self.graded)

    @property
    def took_ms(self) -> Measured[float]:
        """Milliseconds that the agent worked on all trials; reports show this as the time of a case."""
        return _sum_of(trial.took_ms for trial in self.trials)


def _sum_of(times: Iterable[Measured[float]]) -> Measured[float]:
    found = list(times)
    known = [each.value for each in found if isinstance(each, Known)]
    return Known(math.fsum(known)) if found and len(known) == len(found) else Unknown("it was not measured completely")


class SuiteIdentity(Struct, frozen=True):
    """The suite that ran."""

    name: str
    file: str
    digest: str


class SelectedCases(Struct, frozen=True):
    """The selected cases: their number, and the SHA-256 of their ids, one per line, in order."""

    cases: int
    digest: str


class Provenance(Struct, frozen=True):
    """The origin of the record.

    Attributes:
        tool_version: version of holodeck-action.
        target: kind of the target and its path, command or URL, without secrets.
        commit: the commit that was checked out; None if unknown.
        filters: the case filters in force.
        folder: path of the suite's folder in its repository, with `/`; empty if it is the root, None if it is not in a
            repository.
        rejudged: digest (of the canonical form) of the record whose answers this run graded again; target and commit
            are those of that record. None if the run produced its answers itself.
    """

    tool_version: str
    target: str
    commit: str | None = None
    filters: Mapping[str, Any] = field(default_factory=dict)
    folder: str | None = None
    rejudged: str | None = None


class ModelCalls(Struct, frozen=True):
    """Number, tokens and cost of a run's model calls.

    Attributes:
        calls: number of all calls.
        cached: number of calls answered from a recording, a cache, or an identical concurrent call.
        failed: number of calls without an answer.
        requests: number of HTTP requests that were sent, retries included.
        tokens: tokens of the paid prompts and answers; None if one number is unknown.
        cost_usd: cost of these tokens in US dollars; None if one cost is unknown.
        reused: number of evaluations that reuse the verdict of an earlier run, without a call.
    """

    calls: int
    cached: int
    failed: int
    requests: int
    tokens: int | None
    cost_usd: float | None
    reused: int = 0


class Shard(Struct, frozen=True, omit_defaults=True):
    """The part of a run that a record holds. The record's cases outside of this part have no trials.

    Attributes:
        number: number of the shard, 1 to `count`.
        count: number of parts of the whole run.
        cases: number of cases of this part.
        split: digest of the weights by which cases were distributed; empty if only the numbers of trials were used.
        conditions: number of the record's notices that come before the notices about answers; `merge` creates the
            notices about answers again.
        max_tokens: token limit of the suite's own model, for the notices about answers; None if its default applies.
        stopped: why this part ended early; None if it finished.
        depends: digests of the trials' inputs by name, such as `the transcript answers.jsonl`, without the suite's
            files; empty if an earlier version wrote the record.
    """

    number: int
    count: int
    cases: int
    split: str
    conditions: int
    max_tokens: int | None = always_written(None)
    stopped: str | None = always_written(None)
    depends: Mapping[str, str] = {}

    def __str__(self) -> str:
        """Return the shard as on the command line, such as `1/4`."""
        return f"{self.number}/{self.count}"


class RunInfo(Struct, frozen=True, omit_defaults=True):
    """The volatile data of a run.

    `model_calls` is None if the run made no model calls. `base_digest` is the digest of the base's results file; None
    if there is no base. `shard` is None if the run is whole. `workflow` is the path of the workflow's file, `job` the
    id of the job, followed by the `comment-id` of a matrix job; empty if unknown. `closure` has the files and settings
    that can change the verdict; None if an earlier version wrote the record. `notices` are about the model calls, one
    sentence each.
    """

    run_id: str
    started_at: str
    finished_at: str
    duration_ms: float
    python: str
    resumed_trials: int = always_written(0)
    model_calls: ModelCalls | None = always_written(None)
    base_digest: str | None = always_written(None)
    shard: Shard | None = None
    workflow: str = ""
    job: str = ""
    closure: Closure | None = None
    notices: tuple[str, ...] = ()


class CustomSummary(Struct, frozen=True):
    """The result of the suite's own function over the means of its metrics (`gates.summary` with method custom).

    Attributes:
        function: reference to the function, `module.path:callable`.
        score: score from 0 to 1; None if the function returned no such number.
        reason: why there is no score; empty otherwise.
    """

    function: str
    score: float | None
    reason: str = ""


class ReplacedResults(Struct, frozen=True, omit_defaults=True):
    """A committed results file that differs, or may differ, from that of the commit that the run is compared with.

    Attributes:
        source: the position of the file.
        unknown: why it is unknown whether the file differs, as a clause; empty if it differs.
        on_loosened: `baseline.on_loosened` in that commit's policy file; None if it is not set there, or unknown.
    """

    source: SourceMark
    unknown: str = ""
    on_loosened: Reaction | None = None


class BaseRun(Struct, frozen=True, omit_defaults=True):
    """The base of a run; its results are in the folder `base` of the run's folder.

    Attributes:
        source: the origin of the results, as in `baseline.source`.
        commit: the commit that was checked out for the base's run; None if unknown.
        wanted: the commit that was looked for: the merge base of a pull request, or the previous commit; None if the
            source is a file.
        distance: number of commits from `commit` to `wanted`; None if unknown.
        notices: notices about the base, one sentence each.
        name: name of the base in messages, such as the base branch; empty if unknown.
        replaced: how a committed results file differs from the base commit's; None if it does not, if that commit has
            no such file, or if the source is another one.
    """

    source: str
    commit: str | None = always_written(None)
    wanted: str | None = always_written(None)
    distance: int | None = always_written(None)
    notices: tuple[str, ...] = always_written(())
    name: str = always_written("")
    replaced: ReplacedResults | None = None


class RecordedBaseline(Struct, frozen=True, omit_defaults=True):
    """How a run is compared with its base.

    Attributes:
        settings: the settings in force.
        base: the base's run; None if there is no base.
        missing: why there is no base, and how to get one, in one sentence; empty if there is a base.
        on_changed_code: the workflow's reaction to grading code and evidence that differ from the base's; None if
            `settings.on_loosened` applies.
    """

    settings: Baseline
    base: BaseRun | None
    missing: str = always_written("")
    on_changed_code: Reaction | None = None


class CertainEnd(Struct, frozen=True, omit_defaults=True):
    """The end of a run that stopped because its exit code was certain (`stop: certain`).

    Attributes:
        counted: ids of the cases that count.
        not_counted: finished trials of other cases, by case id; volatile.
    """

    counted: tuple[str, ...]
    not_counted: Mapping[str, tuple[TrialRecord, ...]] = {}


class Record(Struct, frozen=True, omit_defaults=True):
    """A whole run.

    `stopped` is the reason why the run ended before its plan was done (signal, deadline); None if it finished. With
    `stop_when_decided`, only trials up to the deciding one count. `summary` is None if no function of the suite
    summarises the run. `configurations` are the judge configurations of the judged metrics, by name; `cards` are the
    summaries of their judge cards, in order of name. `chosen` identifies the selected cases; None in a record of the
    first version. `marks` are the positions of gates, `baseline`, `trials` and quarantine in the policy file, by names
    such as `gates.min_pass_rate` and `quarantine.CASE`. `own` holds the terms in the files of a base suite that was
    evaluated by the head's terms instead. With `consistent: require`, evaluations whose judge contradicts itself are
    errors. `probes` are the probes of judges, by metric and judge.
    """

    schema_version: int
    suite: SuiteIdentity
    provenance: Provenance
    gates: Gates
    quarantine: tuple[QuarantineEntry, ...]
    stop_when_decided: bool
    cases: tuple[CaseRecord, ...]
    run: RunInfo
    stopped: str | None = always_written(None)
    notices: tuple[str, ...] = always_written(())
    summary: CustomSummary | None = always_written(None)
    configurations: Mapping[str, Configuration] = always_written({})
    cards: tuple[CardSummary, ...] = always_written(())
    chosen: SelectedCases | None = always_written(None)
    baseline: RecordedBaseline | None = always_written(None)
    marks: Mapping[str, SourceMark] = field(default_factory=dict)
    own: OwnTerms | None = None
    certain: CertainEnd | None = None
    consistent: Consistency = "report"
    probes: tuple[JudgeProbe, ...] = ()

    @property
    def ended_early(self) -> str | None:
        """The reason why the run, or the shard, ended before its plan was done; None if it finished."""
        return self.stopped if self.run.shard is None else self.run.shard.stopped

    def with_end(self, reason: str) -> Record:
        """Return a copy of the record, marked as ended early for a reason."""
        if self.run.shard is None:
            return replace(self, stopped=reason)
        return replace(self, run=replace(self.run, shard=replace(self.run.shard, stopped=reason)))

    @property
    def turns(self) -> Iterator[TurnRecord]:
        """The turns of all finished trials of all cases."""
        return (turn for case in self.cases for turn in case.turns)

    @property
    def evaluations(self) -> Iterator[Evaluation]:
        """The evaluations of all finished trials of all cases."""
        return (evaluation for case in self.cases for evaluation in case.evaluations)
