"""The settings of metrics, and the properties of a metric that the rest of the program relies on.

A concrete metric is a subclass in `holodeck_action.metrics` or in another package. Its method `evaluator` imports the
code that scores.
"""

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args

from msgspec import Struct
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.model.base import Flag, FormatModel, Integer, LazySection, MaybeText
from holodeck_action.suite.model.judging import Judges
from holodeck_action.suite.model.probing import Exam, Probe
from holodeck_action.suite.model.providers import LLMProvider

EvaluationParam = Literal["input", "actual_output", "expected_output", "context", "retrieval_context"]
VALID_EVALUATION_PARAMS = frozenset[str](get_args(EvaluationParam))
"""The parts of an item that a judge can see."""
ArgumentMatching = Literal["exact", "subset", "ignore"]
"""How the arguments of tool calls are compared."""

NO_INPUTS: frozenset[str] = frozenset()
GROUND_TRUTH = frozenset(("ground_truth",))
TOOLS = frozenset(("expected_tools",))


class Role(Enum):
    """The purpose of a setting, as metadata of its field; a setting without a role affects the score."""

    KIND = auto()
    """Identifies the metric; records store it in a separate field of the criteria."""
    NAME = auto()
    PASS_MARK = auto()
    """Decides whether a score passes, and does not affect the score."""
    SCALE = auto()
    """The scale on which the pass mark is written."""
    HANDLING = auto()
    """Whether the metric is evaluated, what its judges must pass before, and the effect of an error on its case."""
    EFFORT = auto()
    """Time limits and retries of an evaluation."""
    JUDGES = auto()
    """The judges."""


class Member(Struct, frozen=True):
    """One of the evaluations that a composite consists of; `k` is the cut-off rank of a retrieval metric."""

    name: str
    config: "Metric"
    k: int | None


class Embedding(Struct, frozen=True):
    """The text that a metric embeds to compare with the answer, and the model that embeds both.

    Attributes:
        model: name of the model, which the suite's embedding provider serves.
        text: the text; None for the turn's `ground_truth`.
    """

    model: str
    text: str | None


class JudgeCalls(Struct, frozen=True):
    """The calls that each judge of a metric, or of a part of a metric, receives.

    Attributes:
        config: the metric or part, which has the model or panel.
        calls: number of calls, without retries, for one evaluation of a non-empty answer.
        writes_steps: whether the judge is also called once in a run to write the evaluation steps.
    """

    config: "Metric"
    calls: int
    writes_steps: bool = False


class Metric(FormatModel):
    """The base of every metric."""

    if TYPE_CHECKING:
        # A field of every subclass.
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
    """Position of the type in messages and schemas: sorted by this number, then by name."""
    IDENTIFYING_KEY: ClassVar[str | None] = None
    """The key that identifies this type in a case's entry without `type`; None if `type` is required."""
    SHORT: ClassVar[str | None] = None
    """The setting that VALUE in an entry `{TYPE: VALUE}` of `expect` sets; None if `expect` refuses the type."""
    ONLY_FORBIDS: ClassVar[bool] = False
    """Whether the metric only forbids: nearly any answer passes."""
    GRADES_FORM: ClassVar[bool] = False
    """Whether the metric grades only the form of an answer, such as its length, or its tone, whatever it says."""
    NAMES_FILE: ClassVar[bool] = False
    """Whether an entry can name a file, so that `with_file` must be called before the metric is evaluated."""
    HAS_MEMBERS: ClassVar[bool] = False
    """Whether the metric consists of other metrics; such a metric cannot be a member itself."""
    OF_CONVERSATION: ClassVar[bool] = False
    """Whether the metric grades the conversation as a whole, on the last turn."""
    OF_PAIR: ClassVar[bool] = False
    """Whether the metric compares the answer with the base's, so that it is evaluated when both runs have ended."""
    OF_TOOL_CALLS: ClassVar[bool] = False
    """Whether the metric reads the turn's tool calls, or the conversation's if a trajectory is expected."""
    TAKES_CASE: ClassVar[bool] = False
    """Whether the metric's evaluator receives `turn_index`, `test_case_name` and `turn_config`."""
    SCORE_IS_THRESHOLD_FREE: ClassVar[bool] = False
    """Whether a single judge's score does not depend on the threshold, so that stored verdicts outlive its changes."""
    title: ClassVar[str | None] = None
    """Name that messages show with the score and without an explanation; see `Criteria.title`."""
    polarity: ClassVar[Literal["maximize", "minimize"]] = "maximize"
    """Whether high or low scores are good."""

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> builtins.type["Metric"]:
        """Return the class that validates the entry `value`: this class, or the subclass that the entry selects."""
        return cls

    def evaluator(self, building: Any) -> Any:
        """Return the object that evaluates the metric.

        Args:
            building: a `holodeck_action.metrics.base.BuildContext`.

        Returns:
            A `holodeck_action.metrics.base.BaseEvaluator`.

        Raises:
            EvaluationError: there is no evaluator (code `unsupported_metric`), or no judge (code `no_judge`).
        """
        raise NotImplementedError

    def with_file(self, place: Callable[[str], str], checkout: Checkout) -> Self:
        """Return a copy of the metric with the content of the file that it names; the metric itself if it names no
        file.

        Args:
            place: converts a path as written to a path relative to the suite's folder.
            checkout: the suite's, which reads files; paths start in the suite's folder.

        Raises:
            OSError: the file cannot be read.
            ValueError: its content cannot be used; the message is a clause with the path and the reason.
        """
        return self

    def attached_files(self, folder: Path) -> Sequence[str]:
        """Return the paths of files that decide about a grade, relative to `folder`, the suite's."""
        return ()

    def with_tools(self, tools: Sequence[Mapping[str, Any]] | None) -> Self:
        """Return a copy of the metric with the tools that the agent may call; the metric itself if it needs none.

        Args:
            tools: `{name, description, parameters}` of each tool, as `described_tools` returns them; None if the tools
                are unknown.
        """
        return self

    @classmethod
    @cache
    def settings_for(cls, *roles: Role) -> frozenset[str]:
        """Return the names of the settings with one of these roles."""
        return frozenset(name for name, field in cls.model_fields.items() if not {*roles}.isdisjoint(field.metadata))

    @property
    def needs(self) -> frozenset[str]:
        """The inputs that the metric needs besides the answer, named like fields of a turn or an answer.

        `expected_trajectory` also satisfies `expected_tools`.
        """
        return NO_INPUTS

    @property
    def reads_expected_answer(self) -> bool:
        """Whether the metric compares the answer with the turn's `ground_truth`, or may do so."""
        return self.needs >= GROUND_TRUTH

    @property
    def grades_content(self) -> bool:
        """Whether the metric grades what the answer says, and not only its form or what it must not say."""
        return not (self.GRADES_FORM or self.ONLY_FORBIDS)

    @property
    def asserts(self) -> bool:
        """Whether the metric can fail its case."""
        return self.enabled and self._can_fail()

    def _can_fail(self) -> bool:
        return self.pass_mark is not None

    @property
    def pass_mark(self) -> float | None:
        """Lowest passing score on the 0..1 scale (highest if low scores are good); None if the metric has no
        threshold."""
        return self.written_threshold

    @property
    def written_threshold(self) -> float | None:
        """The threshold as it is written, on its own scale; None if the metric has no threshold."""
        return getattr(self, "threshold", None)

    @property
    def powerless_threshold(self) -> float | None:
        """The threshold as written if no score can fail it; None otherwise."""
        mark = self.pass_mark
        reached = mark is not None and (mark >= 1 if self.polarity == "minimize" else mark <= self._lowest_score())
        return self.written_threshold if reached else None

    def _lowest_score(self) -> float:
        return 0.0

    @property
    def measure(self) -> str:
        """Name of the measure, as in `criteria.metric` of records; type and measure identify the metric."""
        return self.type

    def base_name(self, k: int | None) -> str:
        """Return the name of the metric without its settings; `k` is its cut-off rank."""
        return self.measure

    def cut_offs(self) -> Sequence[int | None]:
        """Return one entry for each evaluation: the cut-off ranks of a retrieval metric, or a single None."""
        return (None,)

    def criteria_settings(self) -> dict[str, Any]:
        """Return the settings that records store: all settings that differ from their defaults and have no separate
        field."""
        elsewhere = self.settings_for(Role.KIND, Role.NAME, Role.PASS_MARK, Role.HANDLING, Role.JUDGES)
        return self.model_dump(mode="json", exclude=set(elsewhere), exclude_defaults=True)

    @property
    def passing_categories(self) -> tuple[str, ...] | None:
        """The categories that pass; None if the score is not a category."""
        return None

    @property
    def answer_path(self) -> str | None:
        """Path of the part of a JSON answer that is evaluated; None if the whole answer is evaluated."""
        return None

    @property
    def grader_callables(self) -> tuple[str, ...]:
        """The suite's own scoring functions, as `module.path:callable`."""
        return ()

    @property
    def suite_class_paths(self) -> tuple[str, ...]:
        """The suite's own metric classes, as `module.path:Class`; unlike graders, they are imported for a run only."""
        return ()

    @property
    def reads_tool_calls(self) -> bool:
        """Whether the metric needs the answer's tool calls; False for code graders, which may but need not use them."""
        return self.OF_TOOL_CALLS

    @property
    def reads_turns(self) -> bool:
        """Whether the metric, or a member of it, reads the messages of all turns up to the evaluated turn."""
        return False

    @property
    def sees_conversation(self) -> bool:
        """Whether the metric's judge sees the earlier turns in addition to the question."""
        return False

    @property
    def grades_conversation(self) -> bool:
        """Whether the metric's judge sees all turns together as the answer."""
        return False

    @property
    def concerns_conversation(self) -> bool:
        """Whether the metric, or a member of it, grades the conversation as a whole."""
        return self.OF_CONVERSATION

    @property
    def evaluates_trial(self) -> bool:
        """Whether the evaluation belongs to the whole trial and not to its last turn."""
        return False

    def members(self) -> Sequence[Member]:
        """Return the member metrics; empty if there are none."""
        return ()

    def leaf_metrics(self) -> list["Metric"]:
        """Return the member metrics, or the metric itself if it has none."""
        return [member.config for member in self.members()] or [self]

    def judged_parts(self) -> Iterator[tuple[str, "Metric"]]:
        """Yield (name, part) for each part that a judge grades; the name is empty if the part is the metric itself."""
        yield from ()

    @property
    def needs_judge(self) -> bool:
        """Whether a model must grade the metric or a part of it."""
        return next(self.judged_parts(), None) is not None

    def judge_calls(self) -> Iterator[JudgeCalls]:
        """Yield the judge calls of one evaluation; nothing if the metric needs no judge."""
        yield from ()

    @property
    def exam(self) -> Exam | None:
        """The two answers that each judge must tell apart before it grades; None if there are none."""
        return None

    def for_exam(self) -> Self:
        """Return the metric with the settings for its exam."""
        return self

    @property
    def embedding(self) -> Embedding | None:
        """The embedding model and the text of a metric that compares embeddings; None for other metrics."""
        return None

    @property
    def own_model(self) -> LLMProvider | None:
        """The judge model that the metric's entry names; None if it names none."""
        return getattr(self, "model", None)

    @property
    def own_judges(self) -> Judges | None:
        """The judge panel that the metric's entry sets; None if it sets none."""
        return getattr(self, "judges", None)

    @property
    def library(self) -> str | None:
        """Name of the library that computes the metric or calls the judge; None if this package does so itself."""
        return None

    def library_parts(self) -> list["Metric"]:
        """Return the metrics that a library computes without a model: the metric itself, its parts or its members."""
        return []

    @property
    def compares_literals(self) -> bool:
        """Whether the metric compares arguments of expected tool calls, and needs them to be plain values."""
        return False

    def settings_problem(self) -> str | None:
        """Return why the metric cannot be evaluated; None if its settings are valid. Validators omit these slow
        checks."""
        return None

    def judge_problem(self, provider: str, title: str) -> str | None:
        """Return a clause why a provider's model `title` cannot grade the metric; None if it can."""
        return None

    def expected_value_problem(self, ground_truth: str) -> str | None:
        """Return why no answer can pass with this expected answer; None if an answer can pass."""
        return None

    def notices(self, place: str) -> Iterator[str]:
        """Yield notices about the metric's settings, one sentence each; `place` is the position of its entry."""
        yield from ()


class ScopedMetric(Metric):
    """The base of every metric that can grade a turn or a whole conversation."""

    scope: Literal["turn", "conversation"] = "turn"
    """`conversation`: the metric grades all turns together, once per trial, after the last turn."""

    @property
    def concerns_conversation(self) -> bool:
        """Whether the metric grades the conversation as a whole."""
        return self.scope == "conversation" or super().concerns_conversation

    @property
    def evaluates_trial(self) -> bool:
        """Whether the evaluation belongs to the whole trial."""
        return self.scope == "conversation" and not self.OF_PAIR


class JudgedMetric(Metric):
    """The base of every judged metric."""

    judges: Annotated[LazySection[Judges] | None, Role.JUDGES] = None
    """A panel of judges. Its settings replace those of the policy file, one by one. Example: `{models: [{provider:
    openai, name: gpt-6.1-sol}]}`."""
    # Omitted if it is not set: digests of metrics stay those of earlier versions.
    probe: Annotated[LazySection[Probe] | None, Role.HANDLING, Field(exclude_if=lambda value: value is None)] = None
    """A right and a wrong answer, which each judge must tell apart before the first case; the metric's own pair when
    absent. Example: `{right: {input: Opening hours, response: From 9 on.}, wrong: {input: Opening hours, response:
    Bananas are yellow.}}`."""

    @model_validator(mode="after")
    def _check_judges(self) -> Self:
        if self.judges is not None and self.judges.models and self.own_model is not None:
            raise PydanticCustomError("judges", "names models, and so does model: give only one of them")
        return self

    @model_validator(mode="after")
    def _check_probe(self) -> Self:
        if self.probe is None:
            return self
        if not self.needs_judge:
            raise PydanticCustomError("probe", "has no effect here, since no judge grades; remove it")
        lacking = next(self.probe.lacking(self.needs), None)
        if lacking is not None:
            raise PydanticCustomError("probe", "needs {name}, which the metric reads", {"name": lacking})
        return self

    @property
    def exam(self) -> Exam | None:
        """The pair that the suite gives, else the metric's own pair; None if there is neither."""
        return self.own_exam if self.probe is None else self.probe.exam

    @property
    def own_exam(self) -> Exam | None:
        """The pair that the metric has with these settings; None if the suite writes the criterion."""
        return None

    def judged_parts(self) -> Iterator[tuple[str, Metric]]:
        """Yield the metric itself."""
        yield "", self

    def judge_calls(self) -> Iterator[JudgeCalls]:
        """Yield one judge call; nothing if the metric needs no judge."""
        if self.needs_judge:
            yield JudgeCalls(self, 1)


class QuestionMetric(ScopedMetric, JudgedMetric):
    """The base of every metric whose judge sees the question."""

    ONLY_A_TURN: ClassVar[str | None] = None
    """A clause with the reason why the metric cannot grade a whole conversation, and a remedy; None if it can grade
    one."""

    sees: Literal["turn", "conversation"] = "turn"
    """`conversation`: of a later turn, the judge sees all questions and answers up to the question, not only the
    question."""

    @model_validator(mode="after")
    def _check_scope(self) -> Self:
        if not self.grades_conversation:
            return self
        if self.ONLY_A_TURN is not None:
            raise PydanticCustomError("scope", "cannot be conversation: {reason}", {"reason": self.ONLY_A_TURN})
        if self.sees_conversation:
            raise PydanticCustomError(
                "sees", "has no effect with `scope: conversation`, since the judge then sees all turns; remove it"
            )
        return self

    @property
    def sees_conversation(self) -> bool:
        """Whether the metric's judge sees the earlier turns in addition to the question."""
        return self.sees == "conversation"

    @property
    def grades_conversation(self) -> bool:
        """Whether the metric's judge sees all turns together as the answer."""
        return self.scope == "conversation"

    @property
    def reads_turns(self) -> bool:
        """Whether the metric reads the messages of all turns up to the evaluated turn."""
        return self.sees_conversation or self.grades_conversation
