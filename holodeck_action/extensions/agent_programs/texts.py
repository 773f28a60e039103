"""`type: workspace_text`: metrics for a text of the workspace, in place of the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from holodeck_action.extensions.agent_programs.checks import kept_text, workspace_facts
from holodeck_action.metrics.base import BuildContext, EvaluationResult
from holodeck_action.metrics.composite import CompositeEvaluator, CompositeMetric
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.metric_sets import Member
from holodeck_action.metrics.params import EvalParam
from holodeck_action.metrics.tools.matchers import format_text
from holodeck_action.record.record import ToolInvocation
from holodeck_action.suite.model.base import WrittenText
from holodeck_action.suite.model.metric_base import Role
from holodeck_action.text.lazy_patterns import lazy_pattern

_PLACEHOLDER = lazy_pattern(r"\{\{ *(?:(diff|files|trajectory|response)|file ([^{}]+?)) *\}\}")
_MOST_RESULT = 2_000
"""Maximum characters of a call's result in `{{trajectory}}`."""


def _check_text(value: str) -> str:
    if "{{" in _PLACEHOLDER.sub("", value):
        known = "{{diff}}, {{files}}, {{trajectory}}, {{response}}, {{file PATH}}"
        raise PydanticCustomError("workspace_text", "has an unknown placeholder; known are {known}", {"known": known})
    return value


class NoTextError(Exception):
    """The agent did not leave a file whose text is needed; the message is the reason."""


class WorkspaceTextMetric(CompositeMetric):
    """`type: workspace_text`: metrics that grade a text of the workspace, such as the difference, as the answer."""

    PLACE = 65
    SHORT: ClassVar[str | None] = "workspace_text"

    type: Annotated[Literal["workspace_text"], Role.KIND] = "workspace_text"  # type: ignore[assignment]
    workspace_text: Annotated[WrittenText, AfterValidator(_check_text)]
    """The text that the metrics get as the answer. `{{diff}}` is the difference of the workspace, `{{files}}` the
    changed files, `{{trajectory}}` the calls with their results, `{{response}}` the answer, and `{{file PATH}}` a file.
    Example: `"{{diff}}"`."""

    def base_name(self, k: int | None) -> str:
        """Return the text with its placeholders."""
        return f"workspace_text {format_text(self.workspace_text, 40)}"

    def kept_paths(self) -> Sequence[str]:
        """Return the paths of the files in the text."""
        return [found[2] for found in _PLACEHOLDER.finditer(self.workspace_text) if found[2]]

    def evaluator(self, building: BuildContext) -> WorkspaceTextEvaluator:
        """Return the evaluator of the metric."""
        made = WorkspaceTextEvaluator(
            self.name or self.type,
            [self._build_member(member, building) for member in self.members()],
            parallel=self.parallel,
            threshold=self.threshold,
            timeout=building.options["timeout"],
        )
        made.text = self.workspace_text
        return made


class WorkspaceTextEvaluator(CompositeEvaluator):
    """Evaluates several metrics on a text of the workspace."""

    text = ""

    def __init__(self, name: str, members: Sequence[Member], **settings: Any) -> None:
        """Create the evaluator; the arguments are those of a set of metrics."""
        super().__init__(name, members, **settings)
        spec = self.PARAM_SPEC
        self.PARAM_SPEC = spec._replace(
            required=spec.required | {EvalParam.METADATA}, optional=spec.optional | {EvalParam.TOOL_INVOCATIONS}
        )

    def _inputs(self, member: Member, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        graded = rendered(self.text, inputs)
        answers = (EvalParam.RESPONSE, EvalParam.ACTUAL_OUTPUT)
        return super()._inputs(member, {**inputs, **{name: graded for name in answers if name in inputs}})

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        try:
            rendered(self.text, kwargs)
        except NoTextError as error:
            return EvaluationResult(score=0.0, passed=False, reasoning=str(error), metric_name=self.metric_name)
        return await super()._evaluate_impl(**kwargs)

    def knows_verdicts(self, inputs: Mapping[str, Any], trial: int) -> bool | None:
        """Return whether all needed verdicts are stored; None if no judge is needed or the text is unknown."""
        try:
            return super().knows_verdicts(inputs, trial)
        except (EvaluationError, NoTextError):
            return None


def rendered(text: str, inputs: Mapping[str, Any]) -> str:
    """Return a text with the facts of a trial in place of its placeholders.

    Raises:
        EvaluationError: a fact is unknown (code `missing_input`).
        NoTextError: a file does not exist, or is not text.
    """
    facts = workspace_facts(inputs.get("metadata"), "workspace_text")
    answer = inputs.get("response", inputs.get("actual_output", ""))
    parts: dict[str, Callable[[], str]] = {
        "diff": lambda: _difference(facts),
        "files": lambda: "\n".join(f"{each['change']} {each['path']}" for each in _changed(facts)) or "no file changed",
        "trajectory": lambda: "\n".join(_trajectory(inputs.get("tool_invocations"))) or "no tool was called",
        "response": lambda: str(answer),
    }

    def part(found: re.Match[str]) -> str:
        if found[1]:
            return parts[found[1]]()
        content, problem = kept_text(facts, found[2])
        if content is None:
            raise NoTextError(problem)
        return content

    return _PLACEHOLDER.sub(part, text)


def _changed(facts: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return [each for each in facts.get("changed", ()) if not each.get("ignored")]


def _difference(facts: Mapping[str, Any]) -> str:
    if facts.get("difference_cut"):
        raise EvaluationError("the difference is too large to be kept whole; use {{file PATH}}", code="missing_input")
    return str(facts.get("difference") or "no text changed")


def _trajectory(calls: Sequence[ToolInvocation] | None) -> Iterator[str]:
    if calls is None:
        raise EvaluationError("the calls of the agent are unknown", code="missing_input")
    for number, call in enumerate(calls, 1):
        result = call.result if isinstance(call.result, str) else json.dumps(call.result, ensure_ascii=False)
        more = "…" if len(result) > _MOST_RESULT else ""
        yield f"{number}. {call.name} {json.dumps(dict(call.args), ensure_ascii=False)}"
        yield f"   → {call.error or result[:_MOST_RESULT] + more}"
