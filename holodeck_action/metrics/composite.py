"""`type: composite`: several metrics graded as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.metrics.base import BuildContext
from holodeck_action.metrics.computed import Grader
from holodeck_action.metrics.exchange import conversation_inputs, conversation_text
from holodeck_action.metrics.metric_sets import Member, PresetEvaluator
from holodeck_action.metrics.params import CONVERSATION_CALLS, OTHER_NAME, UNKNOWN_CALLS, EvalParam
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.model.base import Flag, UnitInterval
from holodeck_action.suite.model.metric_base import NO_INPUTS, JudgeCalls, Metric, Role
from holodeck_action.suite.model.metric_base import Member as MemberEntry
from holodeck_action.suite.model.metric_types import MemberMetric


class CompositeMetric(Metric):
    """`type: composite`: several metrics that are graded as one."""

    PLACE = 21
    HAS_MEMBERS = True
    TAKES_CASE = True
    NAMES_FILE = True

    type: Annotated[Literal["composite"], Role.KIND] = "composite"
    metrics: Annotated[list[MemberMetric], Field(min_length=1)]
    """The metrics, which cannot be composites. Example: `[{type: length, max_words: 200}, {type: refusal}]`."""
    parallel: Flag = True
    """False: the metrics are evaluated one after the other."""
    threshold: Annotated[UnitInterval | None, Role.PASS_MARK] = None
    """Lowest passing score of the composite. All its metrics must pass as well. Example: `0.8`."""

    @model_validator(mode="after")
    def _check_members(self) -> CompositeMetric:
        if not any(metric.enabled for metric in self.metrics):
            raise PydanticCustomError("metrics", "leaves nothing to grade: enable one of its metrics")
        if any(metric.fail_on_error for metric in self.metrics):
            raise PydanticCustomError(
                "metrics",
                "must not have fail_on_error: set it on the composite, which fails if any of its metrics fails",
            )
        return self

    def with_file(self, place: Callable[[str], str], checkout: Checkout) -> Self:
        """Return a copy whose metrics have loaded their files; see `Metric.with_file`."""
        if not any(metric.NAMES_FILE for metric in self.metrics):
            return self
        return self.model_copy(update={"metrics": [metric.with_file(place, checkout) for metric in self.metrics]})

    def with_tools(self, tools: Sequence[Mapping[str, Any]] | None) -> Self:
        """Return a copy whose metrics have the agent's tools; see `Metric.with_tools`."""
        return self.model_copy(update={"metrics": [metric.with_tools(tools) for metric in self.metrics]})

    def members(self) -> Sequence[MemberEntry]:
        """Return the enabled metrics, with one entry per cut-off rank; equal names are numbered."""
        members: list[MemberEntry] = []
        times: Counter[str] = Counter()
        for metric in self.metrics:
            for k in metric.cut_offs() if metric.enabled else ():
                name = metric.base_name(k) if metric.name is None else metric.name
                if k is not None and metric.name is not None:
                    name += f" (k={k})"
                times[name] += 1
                members.append(MemberEntry(name if times[name] == 1 else f"{name} ({times[name]})", metric, k))
        return members

    @property
    def needs(self) -> frozenset[str]:
        """The inputs that its members need."""
        return NO_INPUTS.union(*(member.config.needs for member in self.members()))

    @property
    def reads_expected_answer(self) -> bool:
        """Whether a member reads the expected answer."""
        return any(member.config.reads_expected_answer for member in self.members())

    @property
    def grades_content(self) -> bool:
        """Whether a member grades what the answer says."""
        return any(member.config.grades_content for member in self.members())

    def _can_fail(self) -> bool:
        return self.threshold is not None or any(member.config.asserts for member in self.members())

    @property
    def powerless_threshold(self) -> float | None:
        """None, because a member can fail the evaluation even if no score fails the threshold."""
        return None

    @property
    def reads_tool_calls(self) -> bool:
        """Whether a member reads tool calls."""
        return any(member.config.reads_tool_calls for member in self.members())

    @property
    def reads_turns(self) -> bool:
        """Whether a member reads the messages of all turns."""
        return any(member.config.reads_turns for member in self.members())

    @property
    def concerns_conversation(self) -> bool:
        """Whether a metric, enabled or not, grades the conversation as a whole."""
        return any(metric.concerns_conversation for metric in self.metrics)

    @property
    def evaluates_trial(self) -> bool:
        """Whether every metric grades whole conversations."""
        return all(metric.evaluates_trial for metric in self.metrics)

    def criteria_settings(self) -> dict[str, Any]:
        """Return the settings of the composite. Default values are omitted, except for the `type` of every metric."""
        found = super().criteria_settings()
        found["metrics"] = [
            {"type": metric.type, **metric.model_dump(mode="json", exclude_defaults=True)} for metric in self.metrics
        ]
        return found

    def judged_parts(self) -> Iterator[tuple[str, Metric]]:
        """Yield the judged parts of every member, each with the member's name."""
        for member in self.members():
            for part, found in member.config.judged_parts():
                yield f"{member.name}: {part}" if part else member.name, found

    def judge_calls(self) -> Iterator[JudgeCalls]:
        """Yield the judge calls of every member."""
        for member in self.members():
            yield from member.config.judge_calls()

    def library_parts(self) -> list[Metric]:
        """Return the members that are computed by libraries."""
        return [found for member in self.members() for found in member.config.library_parts()]

    def evaluator(self, building: BuildContext) -> CompositeEvaluator:
        """Return the evaluator of the metric."""
        return CompositeEvaluator(
            self.name or self.type,
            [self._build_member(member, building) for member in self.members()],
            parallel=self.parallel,
            threshold=self.threshold,
            timeout=building.options["timeout"],
        )

    def _build_member(self, member: MemberEntry, building: BuildContext) -> Member:
        config = member.config
        if config.retry_on_failure is None:
            config = config.model_copy(update={"retry_on_failure": self.retry_on_failure})
        evaluator = building.member(config, member.k)
        if isinstance(evaluator, Grader):
            evaluator.path = config.answer_path
        return Member(member.name, evaluator, asserts=config.asserts, config=config)


class CompositeEvaluator(PresetEvaluator):
    """Evaluates several metrics as one. The metadata contains their results by name in `metrics`."""

    def _inputs(self, member: Member, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        calls, config = inputs.get(CONVERSATION_CALLS), member.config
        known = {name: value for name, value in super()._inputs(member, inputs).items() if name != CONVERSATION_CALLS}
        if config is None:
            return known
        # An expected trajectory refers to the calls of the whole conversation.
        if config.OF_TOOL_CALLS and calls is not None and inputs.get("expected_trajectory") is not None:
            known["tool_invocations"] = None if calls == UNKNOWN_CALLS else calls
        if config.sees_conversation:
            text = conversation_text(inputs[EvalParam.TURNS])
            # The question has a name in each convention.
            known |= {name: text for name in (EvalParam.QUERY, EvalParam.INPUT) if name in known}
        if config.grades_conversation:
            for param, value in conversation_inputs(inputs[EvalParam.TURNS]).items():
                known[OTHER_NAME.get(EvalParam(param), param)] = value
        return known

    def knows_verdicts(self, inputs: Mapping[str, Any], trial: int) -> bool | None:
        """Return whether all needed verdicts of judges are stored from earlier runs; None if no judge is needed."""
        found = [member.evaluator.knows_verdicts(self._inputs(member, inputs), trial) for member in self.members]
        asked = [known for known in found if known is not None]
        return all(asked) if asked else None

    def _result_metadata(self, metrics: dict[str, Any]) -> dict[str, Any]:
        return {"metrics": metrics}
