"""Tools of type `prompt`: a template is rendered, and a model is called once with the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from msgspec import Struct

from holodeck_action.llm.chat import ChatAnswer, ChatModel
from holodeck_action.llm.clients import RequestSender
from holodeck_action.llm.errors import ModelCallError
from holodeck_action.llm.limits.pauses import TimeLimit
from holodeck_action.llm.messages import Question, Request, ToolDefinition
from holodeck_action.llm.model_facts import known_model
from holodeck_action.llm.providers import ModelConfigError, ModelPlan, resolve_model
from holodeck_action.llm.reasoning import sent_settings
from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.json_schemas import JsonSchema
from holodeck_action.suite.model.tools import PromptTool as PromptEntry
from holodeck_action.suite.model.tools import ToolModel
from holodeck_action.targets.own_model.toolbox import ToolError, Toolkit, ToolResult, parameters_schema, text_result
from holodeck_action.targets.templates.computation_pool import ComputationPool
from holodeck_action.targets.templates.templates import PromptTemplate
from holodeck_action.text.foreign import ForeignError
from holodeck_action.text.plain import make_storable, replace_surrogates

_CUT_OFF = "\n[The answer stops here, at max_tokens.]"


class PromptTools(Toolkit):
    """The prompt tools of a suite. The model calls that they make count as calls of the conversation."""

    def __init__(
        self,
        tools: Sequence[ToolModel],
        *,
        checkout: Checkout,
        plan: ModelPlan,
        environ: Mapping[str, str],
        sender: RequestSender,
        marks: Mapping[str, SourceMark] | None = None,
    ) -> None:
        """Read the templates; no model is called.

        Args:
            tools: all tools of the suite; kinds other than prompts are skipped.
            checkout: the suite's folder, the base of template paths, and the folders that may be read.
            plan: the suite's model, which prompts without a `model` use.
            environ: the job's environment, with keys and URLs of models.
            marks: positions of the tools in the suite's files by their names, for messages.

        Raises:
            TargetError: a template or schema is invalid.
            ModelConfigError: a model has no key or no URL.
        """
        self._clients = sender
        self._computation_pool = ComputationPool(environ, sender.redact)
        self._entries: list[tuple[PromptEntry, str, dict[str, Any], ModelPlan]] = []
        notices: list[str] = []
        for entry in tools:
            if not isinstance(entry, PromptEntry):
                continue
            mark = (marks or {}).get(entry.name)
            where = f"{mark}: tools.{entry.name}" if mark else f"tools.{entry.name}"
            schema = _parameter_schema(entry, where)
            text = template_text(entry, checkout)
            template = _compile_template(entry, text, [*schema.get("properties", {})], where)
            own = plan
            if entry.model is not None:
                own = resolve_model(entry.model, environ, path=f"tools.{entry.name}.model")
                notices += sent_settings(own, known_model(own.provider, own.name)).notices
            self._entries.append((entry, text, schema, own))
            notices += [
                f"tools.{entry.name}: its template does not use the parameter {name}" for name in template.unused
            ]
        self.notices = tuple(notices)

    async def open(self) -> Sequence[PromptTool]:
        """Return the tools, and start the process that renders templates.

        Raises:
            AgentError: `tool_unavailable`: a model is invalid.
        """
        if self._entries:
            # Started here, so that the time does not count as the first call's.
            await self._computation_pool.start("render_prompt")
        try:
            return [
                PromptTool(
                    ToolDefinition(entry.name, entry.description, schema),
                    text,
                    ChatModel(plan, self._clients),
                    self._computation_pool,
                )
                for entry, text, schema, plan in self._entries
            ]
        except ModelConfigError as error:
            raise AgentError(str(error), "tool_unavailable") from error

    async def close(self) -> None:
        """Stop the processes that render templates; connections to models stay open."""
        await self._computation_pool.close()


class PromptTool(Struct, frozen=True):
    """A prompt that the model can call as a tool."""

    definition: ToolDefinition
    template: str
    model: ChatModel
    computing: ComputationPool
    is_retrieval: ClassVar[bool] = False

    async def call(self, args: dict[str, Any], session: str, *, max_bytes: int, timeout_s: float | None) -> ToolResult:
        """Render the template and call the model (see `Tool.call`)."""
        names = [*self.definition.parameters.get("properties", {})]
        given = {"template": self.template, "parameters": names, "values": args}
        try:
            rendered = await self.computing.call("render_prompt", given, label="the template", code="bad_arguments")
        except AgentError as error:
            raise ToolError(f"the template cannot be filled in: {error.message}", "bad_arguments") from None
        if len(rendered.encode("utf-8", "replace")) > max_bytes:
            raise ToolError(f"the prompt holds more than {max_bytes} bytes", "too_large")
        answer = await self._call_model(rendered, timeout_s)
        return text_result(replace_surrogates(answer.text) + (_CUT_OFF if answer.truncated else ""), max_bytes)

    async def _call_model(self, text: str, timeout_s: float | None) -> ChatAnswer:
        try:
            async with TimeLimit(timeout_s):
                return await self.model.ask([Request((Question(text),))])
        except TimeoutError:
            raise ToolError(f"its model did not answer within {timeout_s:g} s", "timeout") from None
        except ModelCallError as error:
            # The model does not see the provider's message, which may contain addresses.
            raise ToolError(error.message, error.code, for_model=f"its model gave no answer ({error.code})") from None


def template_text(entry: PromptEntry, checkout: Checkout) -> str:
    """Return the source text of a prompt's template, inline or from its file.

    Raises:
        TargetError: the file cannot be read.
    """
    if entry.template is not None:
        return entry.template
    try:
        return checkout.read(str(entry.file)).text()
    except (OSError, ForeignError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it {error}"
        raise TargetError(f"tools.{entry.name}.file: {entry.file} cannot be read: {reason}") from None


def _compile_template(entry: PromptEntry, text: str, names: Sequence[str], path: str) -> PromptTemplate:
    try:
        return PromptTemplate(text, names)
    except ValueError as error:
        field = "file" if entry.template is None else "template"
        raise TargetError(f"{path}.{field} is not a usable template: {error}") from None


def _parameter_schema(entry: PromptEntry, path: str) -> dict[str, Any]:
    try:
        schema: dict[str, Any] = make_storable(parameters_schema(entry.parameters))
        JsonSchema(schema)
    except ValueError as error:
        raise TargetError(f"{path}.parameters: {error}") from None
    return schema
