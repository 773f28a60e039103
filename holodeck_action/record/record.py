"""`Record`: everything a run did and found, complete enough to decide and report without another call.

Serialised by `holodeck_action.record.result_files`. Mappings hold JSON values only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from holodeck_action.record.evaluation import ErrorInfo, Evaluation
from holodeck_action.record.facts import Amount, Count, Fact, Known, Measured, Rating, Unknown, listed, measured
from holodeck_action.record.judge_card import CardSummary, Configuration
from holodeck_action.record.own_terms import OwnTerms
from holodeck_action.record.sequences import OneByOne
from holodeck_action.record.serialization import written
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.policy import Baseline, Gates, QuarantineEntry

SCHEMA_VERSION = 2
FIRST_VERSION = 1
"""Still read, though it does not tell a target that called no tool from one that says nothing about tools, which cases
were chosen, and whether it is whole.
"""


class ToolInvocation(Struct, frozen=True):
    """One tool call of the agent; `bytes` is the size of the result's text, `duration_ms` its working time."""

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    result: Any = None
    bytes: Count | None = None
    duration_ms: Amount | None = None
    error: str | None = None


class RetrievedChunk(Struct, frozen=True):
    """One chunk that retrieval returned, in rank order; `score` is the retriever's, on its own scale."""

    id: str
    text: str | None = None
    score: Rating | None = None


class ToolAssertion(Struct, frozen=True):
    """Result of one `expected_tools` entry (or of the list as a whole, for `[]` and `order`).

    Attributes:
        expected: readable form, such as `subtract(a=60.94)`.
        matched: whether it holds; None when that is not known, because the target says nothing of tool calls.
        matched_call_index: index of the first matching call in the turn, -1 without one.
        reason: why it does not hold or is not known; None when it holds, unless by calls alone that ended in an error.
    """

    expected: str
    matched: bool | None
    matched_call_index: int
    reason: str | None = None

    @property
    def problem(self) -> str:
        """Why it does not hold, as a sentence."""
        return self.reason or f"expected {self.expected}"


class ModelUsage(Struct, frozen=True, omit_defaults=True):
    """What one of several models took for a turn; None where unknown, which is not zero; `estimated` as in `Usage`."""

    model: str | None = written(None)
    prompt_tokens: Count | None = written(None)
    completion_tokens: Count | None = written(None)
    cached_tokens: Count | None = written(None)
    reasoning_tokens: Count | None = written(None)
    cost_usd: Amount | None = written(None)
    estimated: bool = False


class Usage(Struct, frozen=True, omit_defaults=True):
    """Model usage of a turn; None where unknown, which is not zero.

    `cached_tokens` are part of `prompt_tokens`, `reasoning_tokens` of `completion_tokens`. `models` holds the parts of
    several models, of which the rest is the sum. `estimated` tells that the cost, or a part of it, is a list price, not
    what the agent reports.
    """

    prompt_tokens: Count | None = written(None)
    completion_tokens: Count | None = written(None)
    cost_usd: Amount | None = written(None)
    cached_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    models: tuple[ModelUsage, ...] = ()
    estimated: bool = False


class Timing(Struct, frozen=True, omit_defaults=True):
    """When (ISO 8601, UTC) and how long; volatile.

    `model_ms` is how long the models of a turn worked, waiting excluded, or what an agent of another target says of its
    own work; that of the original calls where they were recorded or cached. `first_token_ms` is the time until the
    answer began. None where it is not known: `duration_ms` is that of the answers of a transcript.
    """

    started_at: str
    duration_ms: Amount | None
    model_ms: Amount | None = written(None)
    first_token_ms: Amount | None = None


class TurnRecord(Struct, frozen=True, omit_defaults=True):
    """One exchange: what was asked, what came back, how it was graded.

    `error` is set when the agent could not answer; `skipped` (a reason) when the turn was not run because an earlier
    one failed. `tool_invocations` is None when the target says nothing of tool calls, empty when none was made.
    `retrieval_context` is the context the metrics saw (accumulated over the conversation), `context` the
    texts of the turn's files, one each, images excluded; None where it has none or nobody looked at them.
    `finish_reason` says why the suite's own model stopped: `stop`, `length` (at `max_tokens`) or `refusal`;
    `fallback_model` names the model that answered in its place. `model`, `messages` (what the turn adds to the
    conversation) and `metadata` are what an agent of another target says. They are None where nothing is known.
    """

    index: int
    input: str
    source: SourceMark
    ground_truth: str | None = written(None)
    response: str | None = written(None)
    tool_invocations: tuple[ToolInvocation, ...] | None = written(None)
    tool_assertions: tuple[ToolAssertion, ...] = written(())
    retrieval_context: tuple[str, ...] | None = written(None)
    retrieved_chunks: tuple[RetrievedChunk, ...] | None = written(None)
    context: tuple[str, ...] | None = written(None)
    usage: Usage | None = written(None)
    evaluations: tuple[Evaluation, ...] = written(())
    error: ErrorInfo | None = written(None)
    skipped: str | None = written(None)
    timing: Timing | None = written(None)
    finish_reason: str | None = written(None)
    fallback_model: str | None = written(None)
    model: str | None = None
    messages: tuple[Mapping[str, Any], ...] | None = None
    metadata: Mapping[str, Any] | None = None

    @property
    def calls(self) -> Fact[tuple[ToolInvocation, ...]]:
        """The tool calls of the turn."""
        return listed(self.tool_invocations, "the target says nothing of tool calls")

    @property
    def chunks(self) -> Fact[tuple[RetrievedChunk, ...]]:
        """What was retrieved in the conversation so far."""
        return listed(self.retrieved_chunks, "the target says nothing of what it retrieved")

    @property
    def texts(self) -> Fact[tuple[str, ...]]:
        """The retrieved texts that metrics are given."""
        return listed(self.retrieval_context, "the target says nothing of what it retrieved")

    @property
    def took_ms(self) -> Measured[float]:
        """How long the answer took: the working time of the models, else the time from the question to the answer."""
        timing = self.timing
        if self.response is None or timing is None:
            return Unknown("there is no answer" if self.response is None else "nobody measured it")
        return measured(timing.duration_ms if timing.model_ms is None else timing.model_ms, "nobody measured it")

    @property
    def began_ms(self) -> Measured[float]:
        """How long it took until the answer began."""
        if self.response is None or self.timing is None:
            return Unknown("there is no answer" if self.response is None else "nobody measured it")
        return measured(self.timing.first_token_ms, "nobody measured it")

    @property
    def tokens(self) -> Measured[int]:
        """Tokens of prompts and answers of the agent's models."""
        used = self.usage or Usage()
        if used.prompt_tokens is None or used.completion_tokens is None:
            return Unknown("the target does not tell its tokens")
        return Known(used.prompt_tokens + used.completion_tokens)

    @property
    def cost_usd(self) -> Measured[float]:
        """US dollars of the agent's models."""
        return measured((self.usage or Usage()).cost_usd, "the target does not tell its cost")


class TrialRecord(Struct, frozen=True):
    """One repetition of a case; `error` is set when the trial as a whole failed (its session, its deadline)."""

    index: int
    turns: tuple[TurnRecord, ...]
    error: ErrorInfo | None = None
    timing: Timing | None = None

    @property
    def took_ms(self) -> Measured[float]:
        """How long the agent worked on the trial: the sum of its turns, the start of its program left out."""
        return _sum_of(turn.took_ms for turn in self.turns if turn.skipped is None)


class CaseRecord(Struct, frozen=True):
    """One case with its finished trials.

    `planned_evaluations` is the number of evaluations one trial should yield, a turn's tool assertions counted as
    one, disabled metrics and skips by construction excluded; `not_applicable` counts those. `asserting` is False when
    nothing in the case asserts. `source` is where the case begins, `last` where the last of
    its values does; None where that is not known.
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
    tags: tuple[str, ...] = ()
    weight: float = 1.0
    trials: tuple[TrialRecord, ...] = ()
    last: SourceMark | None = None

    @property
    def turns(self) -> Iterator[TurnRecord]:
        """The turns of all finished trials."""
        return (turn for trial in self.trials for turn in trial.turns)

    @property
    def took_ms(self) -> Measured[float]:
        """How long the agent worked on all trials: the time of a case, wherever it is shown."""
        return _sum_of(trial.took_ms for trial in self.trials)


def _sum_of(times: Iterable[Measured[float]]) -> Measured[float]:
    found = list(times)
    known = [each.value for each in found if isinstance(each, Known)]
    return Known(math.fsum(known)) if found and len(known) == len(found) else Unknown("nobody measured all of it")


class SuiteIdentity(Struct, frozen=True):
    """Which suite was asked."""

    name: str
    file: str
    digest: str


class Chosen(Struct, frozen=True):
    """Which cases were to be run: how many, and the SHA-256 of their ids, one a line, in order."""

    cases: int
    digest: str


class Provenance(Struct, frozen=True):
    """What produced the record.

    Attributes:
        tool_version: version of holodeck-action.
        target: kind and address of who answered, without secrets.
        commit: the commit that was checked out; None where it is not known.
        filters: the case filters in force.
        folder: the suite's folder in its repository, with `/`, empty for the root; None outside of a repository.
        rejudged: digest of the canonical form of the record whose answers were graded again, with its target and
            commit; None where the answers are the run's own.
    """

    tool_version: str
    target: str
    commit: str | None = None
    filters: Mapping[str, Any] = field(default_factory=dict)
    folder: str | None = None
    rejudged: str | None = None


class ModelCalls(Struct, frozen=True):
    """What a run's model calls came to.

    Attributes:
        calls: all of them.
        cached: those answered from a recording, a cache, or the same call at the same moment.
        failed: those that got no answer.
        requests: how often something was sent, further attempts included.
        tokens: of prompts and answers that were paid for; None when one of them is not known.
        cost_usd: of the same; None when one of them is not known.
        reused: evaluations for which no judge was asked, since an earlier run kept their verdicts.
    """

    calls: int
    cached: int
    failed: int
    requests: int
    tokens: int | None
    cost_usd: float | None
    reused: int = 0


class Shard(Struct, frozen=True, omit_defaults=True):
    """Which part of a run a record is: its other cases have no trials here.

    Attributes:
        number: 1 to `count`.
        count: the parts of the whole run.
        cases: those of this part.
        split: digest of what the cases were balanced by; empty for their trials alone.
        conditions: notices of the record that come before those about answers, which `merge` makes of all answers.
        max_tokens: the limit of the suite's own model, for these; None for its own.
        stopped: why this part ended before it was done; None when it was.
        depends: digests of what its trials depended on besides the suite's files, by what to call each, such as
            `the transcript answers.jsonl`; empty where an earlier version wrote it.
    """

    number: int
    count: int
    cases: int
    split: str
    conditions: int
    max_tokens: int | None = written(None)
    stopped: str | None = written(None)
    depends: Mapping[str, str] = {}

    def __str__(self) -> str:
        """Show it as the command line has it."""
        return f"{self.number}/{self.count}"


class RunInfo(Struct, frozen=True, omit_defaults=True):
    """The volatile facts of a run.

    `model_calls` is None where no calls of ours were made. `base_digest` is the digest of the base's
    results file; None where there is no base. `shard` is the part of the run that this is; None for a whole run.
    `workflow` is the path of the workflow's file, `job` the id of the job, with the `comment-id` that tells parts of a
    matrix apart; empty where they are not known.
    """

    run_id: str
    started_at: str
    finished_at: str
    duration_ms: float
    python: str
    resumed_trials: int = written(0)
    model_calls: ModelCalls | None = written(None)
    base_digest: str | None = written(None)
    shard: Shard | None = None
    workflow: str = ""
    job: str = ""


class CustomSummary(Struct, frozen=True):
    """What the suite's own callable made of the means of its metrics (`gates.summary` with method custom).

    Attributes:
        function: its reference, `module.path:callable`.
        score: 0..1; None where it gave no such number.
        reason: why there is no score; empty otherwise.
    """

    function: str
    score: float | None
    reason: str = ""


class BaseRun(Struct, frozen=True):
    """The run that a run is compared with; its results are in the folder `base` beside the run's own.

    Attributes:
        source: where it comes from, as in `baseline.source`.
        commit: what was checked out for it; None where it is not known.
        wanted: the commit that was looked for: the merge base of a pull request, or the commit before; None for a file.
        distance: commits from `commit` to `wanted`; None where it is not known.
        notices: what the reader should know of it, each one sentence.
        name: what to call it, such as the base branch; empty where nothing is known.
    """

    source: str
    commit: str | None = None
    wanted: str | None = None
    distance: int | None = None
    notices: tuple[str, ...] = ()
    name: str = ""


class RecordedBaseline(Struct, frozen=True):
    """How a run is compared with its base.

    Attributes:
        settings: those in force.
        base: the run it is compared with; None where there is none.
        missing: why there is none and how to get one, in one sentence; empty where there is one.
    """

    settings: Baseline
    base: BaseRun | None
    missing: str = ""


class Record(Struct, frozen=True, omit_defaults=True):
    """A whole run.

    `stopped` says why the run ended before its plan was done (signal, deadline); None for a run that ended by itself.
    `stop_when_decided` tells which trials count. `summary` is None where no callable of
    the suite summarises it. `configurations` says what decided the scores of the metrics that models graded, by name;
    `cards` what their judge cards tell, in order of name. `chosen` says which cases there must be; None in a record of
    the first version. `marks` says where the policy file sets gates, `baseline`, `trials` and quarantine, by names such
    as `gates.min_pass_rate` and `quarantine.CASE`. `own` holds the terms of a suite that was run by those of another.
    """

    schema_version: int
    suite: SuiteIdentity
    provenance: Provenance
    gates: Gates
    quarantine: tuple[QuarantineEntry, ...]
    stop_when_decided: bool
    cases: OneByOne[CaseRecord]
    run: RunInfo
    stopped: str | None = written(None)
    notices: tuple[str, ...] = written(())
    summary: CustomSummary | None = written(None)
    configurations: Mapping[str, Configuration] = written({})
    cards: tuple[CardSummary, ...] = written(())
    chosen: Chosen | None = written(None)
    baseline: RecordedBaseline | None = written(None)
    marks: Mapping[str, SourceMark] = field(default_factory=dict)
    own: OwnTerms | None = None

    @property
    def ended_early(self) -> str | None:
        """Why the run ended before its own plan was done, which is a part of the cases for a shard; None if not."""
        return self.stopped if self.run.shard is None else self.run.shard.stopped

    def with_end(self, reason: str) -> Record:
        """Return the record of the same run, ended early."""
        if self.run.shard is None:
            return replace(self, stopped=reason)
        return replace(self, run=replace(self.run, shard=replace(self.run.shard, stopped=reason)))

    @property
    def turns(self) -> Iterator[TurnRecord]:
        """The turns of all finished trials of all cases."""
        return (turn for case in self.cases for turn in case.turns)

    @property
    def evaluations(self) -> Iterator[Evaluation]:
        """The evaluations of all turns."""
        return (evaluation for turn in self.turns for evaluation in turn.evaluations)
