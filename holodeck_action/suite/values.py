"""A suite as frozen values: what the rest of the program reads instead of YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.agent import AgentConfig, ProjectConfig
from holodeck_action.suite.model.cases import FileInput
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.model.policy import Policy
from holodeck_action.suite.turn_texts import TurnTexts


class ArgumentMatcher(Struct, frozen=True):
    """How one argument of an expected tool call is compared.

    `value` is the literal for `literal` and the text or pattern for `fuzzy` and `regex`.
    """

    kind: Literal["literal", "fuzzy", "regex"]
    value: Any


class ExpectedTool(Struct, frozen=True):
    """One entry of `expected_tools` or `expected_trajectory`.

    Attributes:
        name: tool name, compared as `match` says.
        args: matcher per argument; None when no argument is asserted (`{}` asserts nothing either).
        count: least number of matching calls.
        max_count: greatest number of matching calls; None for no limit.
        match: `substring` (the format's rule, case-sensitive) or `exact`.
    """

    name: str
    args: Mapping[str, ArgumentMatcher] | None = None
    count: int = 1
    max_count: int | None = None
    match: Literal["substring", "exact"] = "substring"


class ToolExpectation(Struct, frozen=True):
    """`expected_tools` of a turn; an empty `tools` asserts that no tool is called.

    `order`: `any` (the format's rule), `subset` (the expected calls occur in this order, others may stand between),
    `strict` (the calls are exactly these, in this order).
    """

    tools: tuple[ExpectedTool, ...]
    order: Literal["any", "subset", "strict"] = "any"


class MetricSpec(Struct, frozen=True):
    """One metric to evaluate on one turn.

    Attributes:
        config: the validated entry.
        label: display name, equal for entries with equal settings apart from the threshold, unique otherwise.
        mark: where the entry stands.
        inherited: not listed for this turn itself, but in `evaluations.metrics`, in the policy's `metrics`, or on a
            conversation of which another turn has the inputs: a missing input is then a visible skip, not an error.
        k: the cut-off rank of a retrieval metric, one per spec.
    """

    config: Metric
    label: str
    mark: SourceMark
    inherited: bool
    k: int | None = None


class Turn(Struct, frozen=True):
    """One exchange of a case.

    `texts` holds what `input` and `ground_truth` return.
    `expected_trajectory` and `ground_truth_chunk_ids` (id → gain; 1.0 for a plain list) concern the whole conversation
    and stand on the last turn only, where trajectory and retrieval metrics are evaluated.
    """

    index: int
    texts: TurnTexts
    mark: SourceMark
    expected_tools: ToolExpectation | None = None
    files: tuple[FileInput, ...] = ()
    retrieval_context: tuple[str, ...] | None = None
    turn_config: Mapping[str, Any] = {}
    metrics: tuple[MetricSpec, ...] = ()
    expected_trajectory: tuple[ExpectedTool, ...] | None = None
    ground_truth_chunk_ids: Mapping[str, float] | None = None

    @property
    def input(self) -> str:
        """What is asked."""
        return self.texts.asked

    @property
    def ground_truth(self) -> str | None:
        """The answer that is expected; None for none."""
        return self.texts.ground_truth


class Case(Struct, frozen=True):
    """One test case: who is asked (`id`) and what is asked (`content_hash`, sha256 hex of the asked content).

    `mark` is where it begins, `last` where the last of its values does; None where it is not known. `min_pass` is how
    many of its `repeat` trials must pass; None for all of them.
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

    @property
    def passes_needed(self) -> int:
        """How many of its trials must pass."""
        return self.repeat if self.min_pass is None else self.min_pass

    @property
    def lenient(self) -> bool:
        """Whether it passes although as many of its trials fail as pass, or more."""
        return 2 * self.passes_needed <= self.repeat


@dataclass(frozen=True, slots=True)
class Suite:
    """A validated suite.

    Attributes:
        name: the agent's name.
        folder: absolute folder of agent.yaml; relative paths of the suite start here.
        file: name of the suite's file inside `folder`.
        digest: sha256 hex over the suite's files (agent.yaml, test_cases_file, policy file; line ends normalised).
        agent: the validated agent.yaml.
        policy: the validated policy file, or its defaults.
        project: project config merged over user config.
        cases: in the order of the file.
        checkout: its folder, and what paths in its files may reach.
        notices: what the reader should know (unused blocks, duplicate names, deprecated metrics), each one sentence.
        secrets: substituted variable values and secret fields, for redaction; never shown.
        tool_marks: where the tools of agent.yaml stand, by name; shared MCP servers have none.
        summary_mark: where the policy file names the callable of `gates.summary`; None where it names none.
        gates_mark: where the policy file has its gates; None where it has none.
        card_marks: where the policy file names each of its judge cards.
        target_mark: where the policy file names its target; None where it names none.
        environment_mark: where the policy file says which packages there are; None where it does not.
        model_mark: where agent.yaml describes its model.
        gate_marks: where the policy file sets each gate and key of `baseline` and `trials`, by name such as
            `gates.max_cost_usd`.
        quarantine_marks: where the policy file names each case in quarantine.
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
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    tool_marks: Mapping[str, SourceMark] = field(default_factory=dict)
    summary_mark: SourceMark | None = None
    gates_mark: SourceMark | None = None
    card_marks: tuple[SourceMark, ...] = ()
    target_mark: SourceMark | None = None
    environment_mark: SourceMark | None = None
    model_mark: SourceMark | None = None
    gate_marks: Mapping[str, SourceMark] = field(default_factory=dict)
    quarantine_marks: tuple[SourceMark, ...] = ()
