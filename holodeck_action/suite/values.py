"""A suite as frozen values, which the rest of the program reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.agent import AgentConfig, ProjectConfig
from holodeck_action.suite.model.cases import FileInput
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.model.policy import Policy
from holodeck_action.suite.model.simulation import Simulation, Speaker


class ArgumentMatcher(Struct, frozen=True):
    """The comparison of one argument of an expected tool call.

    `value` is the expected value for `literal`, the expected string for `fuzzy` and the pattern for `regex`.
    """

    kind: Literal["literal", "fuzzy", "regex"]
    value: Any


class ExpectedTool(Struct, frozen=True):
    """One entry of `expected_tools` or `expected_trajectory`.

    Attributes:
        name: name of the tool; `match` determines how it is compared.
        args: matcher of each argument; None, like `{}`, asserts no argument.
        count: minimum number of matching calls.
        max_count: maximum number of matching calls; None if there is no limit.
        match: `substring` (the default, case-sensitive) or `exact`.
    """

    name: str
    args: Mapping[str, ArgumentMatcher] | None = None
    count: int = 1
    max_count: int | None = None
    match: Literal["substring", "exact"] = "substring"


class ToolExpectation(Struct, frozen=True):
    """`expected_tools` of a turn; an empty `tools` asserts that no tool is called.

    `order` is `any` (the default), `subset` (the expected calls occur in this order, with other calls between them
    allowed) or `strict` (the calls are exactly these, in this order).
    """

    tools: tuple[ExpectedTool, ...]
    order: Literal["any", "subset", "strict"] = "any"


class MetricSpec(Struct, frozen=True):
    """One metric to evaluate on one turn.

    Attributes:
        config: the validated entry.
        label: display name; two entries share it if and only if their settings are equal, apart from the threshold.
        mark: position of the entry.
        inherited: whether the metric is skipped, without an error, if the turn lacks an input of the metric. This is so
            if the metric is listed for the suite, in the policy's `metrics`, or on a conversation in which another turn
            has the inputs.
        k: the cut-off rank of a retrieval metric, one per spec; None for other metrics.
    """

    config: Metric
    label: str
    mark: SourceMark
    inherited: bool
    k: int | None = None


class Turn(Struct, frozen=True, gc=False):
    """One exchange of a case.

    `input` is the user's message, `ground_truth` the expected answer; None if there is none. `expected_trajectory` and
    `ground_truth_chunk_ids` (id → gain; 1.0 for a plain list) apply to the whole conversation and are set only on the
    last turn, which trajectory and retrieval metrics evaluate. `simulated_user` has texts about the conversation's
    simulated user by title, such as the goal; None if no user is simulated. `said_by` is the author of a simulated
    user's input. `references` has the expected answers if there are several, by whether any must be matched, or all;
    `ground_truth` is then their text.
    """

    index: int
    input: str
    mark: SourceMark
    ground_truth: str | None = None
    expected_tools: ToolExpectation | None = None
    files: tuple[FileInput, ...] = ()
    retrieval_context: tuple[str, ...] | None = None
    turn_config: Mapping[str, Any] = {}
    metrics: tuple[MetricSpec, ...] = ()
    expected_trajectory: tuple[ExpectedTool, ...] | None = None
    ground_truth_chunk_ids: Mapping[str, float] | None = None
    simulated_user: Mapping[str, str] | None = None
    said_by: Speaker = ""
    references: Mapping[str, Sequence[str]] | None = None


class StopCheck(Struct, frozen=True):
    """A check of an answer that ends a conversation with a simulated user: a metric, or expected tool calls."""

    label: str
    metric: MetricSpec | None = None
    tools: ToolExpectation | None = None


class Case(Struct, frozen=True, gc=False):
    """One test case. `content_hash` is the SHA-256, in hex, of its questions and expectations.

    `mark` is the position at which the case begins, and `last` the position of its last value, None if unknown.
    `min_pass` is how many of the `repeat` trials must pass; None if all must pass. If `simulation` is set, a model
    plays the user: the only turn has no input, and its expectations and metrics are those of the whole conversation;
    `stop` has the checks that end the conversation.
    """

    id: str
    name: str | None
    content_hash: str
    mark: SourceMark
    turns: tuple[Turn, ...]
    multi_turn: bool
    tags: tuple[str, ...] = ()
    weight: float = 1.0
    repeat: int = 1
    min_pass: int | None = None
    last: SourceMark | None = None
    simulation: Simulation | None = None
    stop: tuple[StopCheck, ...] = ()

    @property
    def passes_needed(self) -> int:
        """Number of trials that must pass."""
        return self.repeat if self.min_pass is None else self.min_pass

    @property
    def lenient(self) -> bool:
        """Whether the case can pass although at least half of its trials fail."""
        return 2 * self.passes_needed <= self.repeat


class Suite(Struct, frozen=True):
    """A validated suite.

    Attributes:
        name: the agent's name.
        folder: absolute folder of agent.yaml; relative paths of the suite start here.
        file: name of the suite's file inside `folder`.
        digest: SHA-256, in hex, of the suite's files (agent.yaml, test_cases_file, policy file; line ends normalised).
        agent: the validated agent.yaml.
        policy: the validated policy file, or its defaults.
        project: project config merged over user config.
        cases: the cases, in the order of their file.
        checkout: the suite's folder, and the paths that the suite may read.
        notices: notices for the reader (unused blocks, duplicate names, deprecated metrics), one sentence each.
        secrets: values of variables and secret fields, for redaction; never shown.
        tool_marks: positions of the tools in agent.yaml, by name; shared MCP servers are not included.
        graders: the suite's own scoring functions (`module:callable`), each with its first position.
        metric_classes: the suite's own metric classes (`module:Class`), each with its first position.
        summary_mark: position of the function of `gates.summary` in the policy file; None if it has none.
        gates_mark: position of the gates in the policy file; None if it has none.
        card_marks: positions of the judge cards in the policy file.
        target_mark: position of the target in the policy file; None if it has none.
        environment_mark: position of the environment in the policy file; None if it has none.
        model_mark: position of the model in agent.yaml.
        gate_marks: position of each gate and key of `baseline` and `trials` in the policy file, by name such as
            `gates.max_cost_usd`.
        cache_mark: position of `cache.mode` in the policy file; None if it has none.
        quarantine_marks: positions of the quarantined cases in the policy file.
    """

    name: str
    folder: Path
    file: str
    digest: str
    agent: AgentConfig
    policy: Policy
    project: ProjectConfig
    cases: tuple[Case, ...]
    checkout: Checkout
    notices: tuple[str, ...] = ()
    secrets: frozenset[str] = frozenset()
    tool_marks: Mapping[str, SourceMark] = field(default_factory=dict)
    graders: Mapping[str, SourceMark] = field(default_factory=dict)
    metric_classes: Mapping[str, SourceMark] = field(default_factory=dict)
    summary_mark: SourceMark | None = None
    gates_mark: SourceMark | None = None
    card_marks: tuple[SourceMark, ...] = ()
    target_mark: SourceMark | None = None
    environment_mark: SourceMark | None = None
    model_mark: SourceMark | None = None
    gate_marks: Mapping[str, SourceMark] = field(default_factory=dict)
    cache_mark: SourceMark | None = None
    quarantine_marks: tuple[SourceMark, ...] = ()

    def __repr__(self) -> str:
        # Without secrets.
        return f"Suite({self.name!r}, {str(self.folder / self.file)!r}, {len(self.cases)} cases)"
