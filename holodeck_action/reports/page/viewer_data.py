"""What the viewer's page is made of, as its script reads it: plain JSON values.

The same types stand in the script's source (`viewer/src/data.ts`). What is absent is None, times are milliseconds,
scores are on the metric's own scale, and texts are as in the record. The cases are in the order of `Index`.
"""

from __future__ import annotations

from typing import Literal, TypedDict

from holodeck_action.decide.verdict import Outcome

DATA_VERSION: Literal[1] = 1

CaseOutcome = Outcome | Literal["pending"]
"""`pending` is a case of a run that goes on."""
Change = Literal["regressed", "improved", "new", "gone", "changed", "same"]
"""What became of a case since the base: `changed` asks or expects something else, `gone` is not asked any more."""


class Gate(TypedDict):
    """A gate, and in a sentence why it is in its state."""

    name: str
    state: str
    sentence: str


class Remarks(TypedDict):
    """Sentences of one kind, such as what judge cards say."""

    title: str
    lines: list[str]


class Suite(TypedDict):
    """A suite: `counts` are cases by outcome, `pass_rate` is 0..1, `file` its path as a command takes it."""

    name: str
    folder: str
    outcome: str
    sentence: str
    target: str
    counts: dict[str, int]
    pass_rate: float | None
    gates: list[Gate]
    notices: list[str]
    remarks: list[Remarks]
    file: str | None


class Metric(TypedDict):
    """A metric of the suite with this index.

    `min` and `max` are the ends of the axis that its scores are drawn on, `low` and `high` those of the 95 % interval
    of `mean`. The counts are evaluations.
    """

    name: str
    suite: int
    threshold: float | None
    minimize: bool
    min: float
    max: float
    mean: float | None
    low: float | None
    high: float | None
    passed: int
    failed: int
    errors: int
    skipped: int


class Measure(TypedDict):
    """A mean or a rate on both sides; `low` and `high` are the ends of the 95 % interval of the difference."""

    name: str
    base: float | None
    head: float | None
    low: float | None
    high: float | None
    change: str


class Base(TypedDict):
    """What is compared with."""

    name: str
    sha: str | None
    when: str | None
    sentence: str
    measures: list[Measure]


class Past(TypedDict):
    """A run of the history of the suite with this index; `metrics` are means in the order of `Head.metrics`."""

    suite: int
    when: str
    sha: str | None
    pass_rate: float | None
    cost_usd: float | None
    latency_ms: float | None
    metrics: list[float | None]


class Run(TypedDict):
    """Facts of the run; sums over all suites."""

    started: str | None
    duration_ms: float | None
    model_calls: int | None
    cost: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    tool_version: str
    commit: str | None
    commit_url: str | None
    run_url: str | None


class Omitted(TypedDict):
    """So many cases whose details the page leaves out, why, and the command that shows one of them."""

    cases: int
    why: str
    command: str


class Head(TypedDict):
    """What the page says before any case; `base` is None where nothing is compared with."""

    version: Literal[1]
    title: str
    outcome: str
    sentence: str
    exit_code: int | None
    suites: list[Suite]
    metrics: list[Metric]
    base: Base | None
    history: list[Past]
    run: Run
    omitted: Omitted | None
    live: str | None


class Index(TypedDict):
    """The cases, column by column: those that need attention first, worst first, then in the order of their suites.

    `position` is the place in the suite. `scores` and each text of `metric_outcomes` are by metric, in the order of
    `Head.metrics`: the case's mean, and a letter: p f e s i, or - for none. `latency_ms` is the time of the agent's
    work on all trials of the case.
    """

    id: list[str]
    title: list[str]
    suite: list[int]
    position: list[int]
    outcome: list[CaseOutcome]
    flaky: list[bool]
    change: list[Change | None]
    reason: list[str]
    place: list[str]
    url: list[str | None]
    tags: list[list[str]]
    command: list[str]
    scores: list[list[float | None]]
    metric_outcomes: list[str]
    latency_ms: list[float | None]
    tokens: list[int | None]
    cost_usd: list[float | None]
    trials: list[int]
    passed_trials: list[int]


class Tool(TypedDict):
    """A tool call; arguments and result are JSON in lines, or a text."""

    name: str
    args: str
    result: str | None
    error: str | None
    duration_ms: float | None


class ExpectedTool(TypedDict):
    """An expected tool call: `ok` is None where nobody knows, `text` says why it is missing."""

    name: str
    args: str | None
    ok: bool | None
    text: str


class Chunk(TypedDict):
    """A retrieved text; `score` is the retriever's, on its own scale."""

    id: str | None
    text: str
    score: float | None


class Vote(TypedDict):
    """The verdict of one judge of a panel."""

    judge: str
    outcome: str
    score: float | None
    explanation: str | None


class Evaluated(TypedDict):
    """An evaluation: `raw` is a score that is no number, `details` what the evaluator tells besides, as JSON."""

    metric: str
    outcome: str
    score: float | None
    raw: str | None
    threshold: float | None
    reason: str
    explanation: str | None
    judge: str | None
    votes: list[Vote]
    details: str | None
    cost_usd: float | None
    duration_ms: float | None


class Fact(TypedDict):
    """Something else that the record tells of a turn."""

    name: str
    text: str


class Turn(TypedDict):
    """One exchange; `context` are the texts of the turn's files, `cost_usd` is the agent's."""

    input: str
    response: str | None
    expected: str | None
    outcome: CaseOutcome
    error: str | None
    problems: list[str]
    tools: list[Tool]
    expected_tools: list[ExpectedTool]
    chunks: list[Chunk]
    context: list[str]
    evaluations: list[Evaluated]
    facts: list[Fact]
    latency_ms: float | None
    first_token_ms: float | None
    tokens: int | None
    cost_usd: float | None
    models: list[str]


class Trial(TypedDict):
    """One repetition of a case with the index that labels name; cost and tokens are sums over its turns."""

    index: int
    outcome: CaseOutcome
    reason: str
    turns: list[Turn]
    latency_ms: float | None
    cost_usd: float | None
    tokens: int | None
    error: str | None


class Detail(TypedDict):
    """Everything about a case.

    `remarks` are sentences on its trials and on what changed since the base. `base` is the same case in the base's
    record, None where there is none.
    """

    remarks: list[str]
    trials: list[Trial]
    base: list[Trial] | None
