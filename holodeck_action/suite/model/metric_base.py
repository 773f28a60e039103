"""What a metric is: its settings, and the facts about it that the rest of the program derives what it needs from.

A concrete metric is a subclass in `holodeck_action.metrics`, or in another package that brings one. Nothing here
scores: `evaluator` imports what does.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args

from msgspec import Struct
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.suite.model.base import Flag, FormatModel, Integer, MaybeText
from holodeck_action.suite.model.judging import Judges
from holodeck_action.suite.model.providers import LLMProvider

EvaluationParam = Literal["input", "actual_output", "expected_output", "context", "retrieval_context"]
VALID_EVALUATION_PARAMS = frozenset[str](get_args(EvaluationParam))
"""What a judge can be shown of an item."""
ArgumentMatching = Literal["exact", "subset", "ignore"]
"""How the arguments of tool calls are compared."""

INPUT_OF_PARAM = {
    "expected_output": "ground_truth",
    "retrieval_context": "retrieval_context",
    "context": "context",
}
"""The input of a turn that stands behind a parameter; what is asked and answered is always there."""

NOTHING: frozenset[str] = frozenset()
GROUND_TRUTH = frozenset(("ground_truth",))
TOOLS = frozenset(("expected_tools",))


class Role(Enum):
    """What a setting is for, as metadata of its field; a setting without a role says what is measured."""

    KIND = auto()
    """Says which metric it is; criteria of records have it in a field of its own."""
    NAME = auto()
    PASS_MARK = auto()
    """Decides whether a score passes; the score is the same with another one."""
    SCALE = auto()
    """The scale on which the pass mark is written."""
    HANDLING = auto()
    """Whether the metric is evaluated, and what becomes of its case if that fails."""
    EFFORT = auto()
    """How long and how often evaluating is tried."""
    JUDGES = auto()
    """Who grades."""


class Member(Struct, frozen=True):
    """One evaluation of a metric that is made of several; `k` is the cut-off rank of a retrieval metric."""

    name: str
    config: Metric
    k: int | None


class JudgeCalls(Struct, frozen=True):
    """What is asked of every judge of a metric, or of a part of one.

    Attributes:
        config: has the model or panel that is asked.
        calls: of one evaluation of an answer that is not empty, nothing asked again.
        writes_steps: whether the judge is asked once in a run, besides, to write the steps.
    """

    config: Metric
    calls: int
    writes_steps: bool = False


class Metric(FormatModel):
    """What every metric has."""

    if TYPE_CHECKING:
        # A field of every subclass, after those that it is told by.
        type: str

    enabled: Annotated[Flag, Role.HANDLING] = True
    """False: the metric is shown as skipped and asserts nothing."""
    fail_on_error: Annotated[Flag, Role.HANDLING] = False
    """True: an evaluation that has an error fails its case. False: it counts against completeness."""
    timeout_ms: Annotated[Annotated[Integer, Field(gt=0)] | None, Role.EFFORT] = None
    """Milliseconds that one evaluation may take; 60,000 when absent. Example: `120000`."""
    retry_on_failure: Annotated[Annotated[Integer, Field(ge=1, le=3)] | None, Role.EFFORT] = None
    """How often a transient failure is retried, after 2, 4 and 8 seconds; never when absent. Example: `2`."""
    name: Annotated[MaybeText, Role.NAME] = None
    """The name in reports and gates; derived from the metric when absent. Example: `wording`."""

    PLACE: ClassVar[int] = 100
    """Where messages and schemas list the type: by this number, then by name."""
    TOLD_BY: ClassVar[str | None] = None
    """The key that says of a case's entry without `type` that it is of this one; None: `type` is required."""
    HAS_MEMBERS: ClassVar[bool] = False
    """Whether it is made of other entries; it cannot be one of these itself."""
    OF_CONVERSATION: ClassVar[bool] = False
    """Whether it grades the conversation as a whole, on its last turn."""
    OF_TOOL_CALLS: ClassVar[bool] = False
    """Whether it looks at tool calls: those of the whole conversation where a trajectory is expected of it."""
    TAKES_CASE: ClassVar[bool] = False
    """Whether its evaluator is given `turn_index`, `test_case_name` and `turn_config`."""
    SCORE_IS_THRESHOLD_FREE: ClassVar[bool] = False
    """Whether one judge gives the score from the declared inputs alone: its verdicts are kept without a threshold."""
    polarity: ClassVar[Literal["maximize", "minimize"]] = "maximize"
    """Whether high or low scores are good."""

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> builtins.type[Metric]:
        """Return the class of an entry of its type that is written like this."""
        return cls

    def evaluator(self, building: Any) -> Any:
        """Return what scores.

        Args:
            building: a `holodeck_action.metrics.base.Building`.

        Returns:
            A `holodeck_action.metrics.base.BaseEvaluator`.

        Raises:
            EvaluationError: there is none (code `unsupported_metric`), or nobody to grade (code `no_judge`).
        """
        raise NotImplementedError

    @classmethod
    @cache
    def settings_for(cls, *roles: Role) -> frozenset[str]:
        """Return the names of the settings with one of these roles."""
        return frozenset(name for name, field in cls.model_fields.items() if not {*roles}.isdisjoint(field.metadata))

    @property
    def needs(self) -> frozenset[str]:
        """The inputs it needs besides the answer, as fields of a turn or of an answer are called.

        `expected_tools` are satisfied by `expected_trajectory`, too.
        """
        return NOTHING

    @property
    def asserts(self) -> bool:
        """Whether it can fail its case."""
        return self.enabled and self._can_fail()

    def _can_fail(self) -> bool:
        return self.pass_mark is not None

    @property
    def pass_mark(self) -> float | None:
        """Lowest passing score on the 0..1 scale (the highest where low is good); None when there is none."""
        return self.written_threshold

    @property
    def written_threshold(self) -> float | None:
        """The threshold as it is written, on whatever scale; None without one."""
        return getattr(self, "threshold", None)

    @property
    def powerless_threshold(self) -> float | None:
        """The threshold as written where every score reaches it; None where it decides something, or is not there."""
        mark = self.pass_mark
        reached = mark is not None and (mark >= 1 if self.polarity == "minimize" else mark <= self._lowest_score())
        return self.written_threshold if reached else None

    def _lowest_score(self) -> float:
        return 0.0

    @property
    def measure(self) -> str:
        """What `criteria.metric` of records says is measured; the type says the rest."""
        return self.type

    @property
    def title(self) -> str | None:
        """What sentences call it, where its number says all there is to say; None where its explanation says more."""
        return None

    def base_name(self, k: int | None) -> str:
        """Return the name of the metric without its settings; `k` is its cut-off rank."""
        return self.measure

    def cut_offs(self) -> Sequence[int | None]:
        """Return one entry per evaluation that it asks for: its ranks for a metric of ranked texts, else None once."""
        return (None,)

    def criteria_settings(self) -> dict[str, Any]:
        """Return the settings that records keep: those that differ from their defaults and stand nowhere else."""
        elsewhere = self.settings_for(Role.KIND, Role.NAME, Role.PASS_MARK, Role.HANDLING, Role.JUDGES)
        return self.model_dump(mode="json", exclude=set(elsewhere), exclude_defaults=True)

    @property
    def passing_categories(self) -> tuple[str, ...] | None:
        """The passing categories, where scores may be such; None where they are not judged by it."""
        return None

    @property
    def answer_path(self) -> str | None:
        """The part of a JSON answer that is evaluated; None for the whole answer."""
        return None

    @property
    def grader_callables(self) -> tuple[str, ...]:
        """The suite's own callables that score, as `module.path:callable`."""
        return ()

    @property
    def reads_tool_calls(self) -> bool:
        """Whether it needs the tool calls of the answer; of code graders nobody knows."""
        return self.OF_TOOL_CALLS

    @property
    def concerns_conversation(self) -> bool:
        """Whether it, or a member, grades the conversation as a whole."""
        return self.OF_CONVERSATION

    def members(self) -> Sequence[Member]:
        """Return the metrics that it is made of; empty for a metric by itself."""
        return ()

    def flat(self) -> list[Metric]:
        """Return its members, or itself where it has none."""
        return [member.config for member in self.members()] or [self]

    def judged_parts(self) -> Iterator[tuple[str, Metric]]:
        """Yield what models must grade: the metric itself under no name, or its parts under theirs."""
        yield from ()

    @property
    def needs_judge(self) -> bool:
        """Whether a model must grade it, or a part of it."""
        return next(self.judged_parts(), None) is not None

    def judge_calls(self) -> Iterator[JudgeCalls]:
        """Yield what is asked of judges for one evaluation; nothing where it needs none."""
        yield from ()

    @property
    def own_model(self) -> LLMProvider | None:
        """The model that its entry names to grade."""
        return None

    @property
    def own_judges(self) -> Judges | None:
        """The panel that its entry names to grade."""
        return None

    @property
    def library(self) -> str | None:
        """The library that computes it or asks the judge; None for ours."""
        return None

    def computed_by_library(self) -> list[Metric]:
        """Return what a library computes of it without a model: itself, parts or members."""
        return []

    @property
    def compares_literals(self) -> bool:
        """Whether it compares arguments of expected calls that are plain values, and cannot compare others."""
        return False

    def settings_problem(self) -> str | None:
        """Return why it cannot be evaluated anywhere, where that is more than its validators should import."""
        return None

    @property
    def supported_providers(self) -> tuple[str, ...] | None:
        """The providers whose models can grade it; None for all."""
        return None

    def unsupported_judge(self, shown: str) -> str:
        """Return why a model of another provider cannot grade it, and the way out."""
        return f"is graded by models of {' or '.join(self.supported_providers or ())} alone, and {shown} is none"

    def expected_value_problem(self, ground_truth: str) -> str | None:
        """Return why no answer can pass with this expected value."""
        return None

    def notices(self, place: str) -> Iterator[str]:
        """Yield what the reader should know of its settings, one sentence each; `place` is where its entry stands."""
        yield from ()


class JudgedMetric(Metric):
    """What every judged metric has."""

    judges: Annotated[Judges | None, Role.JUDGES] = None
    """A panel of judges. Its settings replace those of the policy file, one by one. Example: `{models: [{provider:
    openai, name: gpt-4o}]}`."""

    @model_validator(mode="after")
    def _model_or_panel(self) -> Self:
        if self.judges is not None and self.judges.models and self.own_model is not None:
            raise PydanticCustomError("judges", "names models, and so does model: give one of them")
        return self

    @property
    def own_model(self) -> LLMProvider | None:
        """The model that its entry names to grade."""
        return getattr(self, "model", None)

    @property
    def own_judges(self) -> Judges | None:
        """The panel that its entry names to grade."""
        return self.judges

    def judged_parts(self) -> Iterator[tuple[str, Metric]]:
        """Yield the metric itself."""
        yield "", self

    def judge_calls(self) -> Iterator[JudgeCalls]:
        """Yield the one call of a metric that asks one question."""
        if self.needs_judge:
            yield JudgeCalls(self, 1)


class GradedPart(JudgedMetric):
    """A part of a metric as a judge's work of its own; no entry is written like this.

    `scored`: whether DeepEval asks; refusals and trajectories are questions of our own.
    """

    type: Literal["part"] = "part"
    model: Annotated[LLMProvider | None, Role.JUDGES] = None
    scored: Flag = True

    @property
    def library(self) -> str | None:
        """The library that asks the judge."""
        return "deepeval" if self.scored else None
