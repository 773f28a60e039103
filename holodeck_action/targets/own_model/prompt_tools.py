"""Tools that are a prompt of their own: a template is filled in, and a model asked once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from msgspec import Struct

from holodeck_action.llm.chat import ChatAnswer, ChatModel
from holodeck_action.llm.clients import Clients
from holodeck_action.llm.errors import ModelCallError
from holodeck_action.llm.limits.pauses import TimeLimit
from holodeck_action.llm.messages import Question, Request, ToolDefinition
from holodeck_action.llm.providers import ModelConfigError, ModelPlan, resolve_model
from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.tools import PromptTool as PromptEntry
from holodeck_action.suite.model.tools import ToolModel
from holodeck_action.targets.own_model.schemas import JsonSchema
from holodeck_action.targets.own_model.toolbox import ToolError, Toolkit, ToolResult, parameters_schema, text_result
from holodeck_action.targets.templates.computing import Computing
from holodeck_action.targets.templates.templates import PromptTemplate
from holodeck_action.text.foreign import ForeignError
from holodeck_action.text.plain import storable, storable_text

_CUT_OFF = "\n[The answer stops here, at max_tokens.]"


class PromptTools(Toolkit):
    """The prompts of a suite. Each call is a model call of the conversation: it is recorded and counted with it."""

    def __init__(
        self,
        tools: Sequence[ToolModel],
        *,
        checkout: Checkout,
        plan: ModelPlan,
        environ: Mapping[str, str],
        clients: Clients,
        marks: Mapping[str, SourceMark] | None = None,
    ) -> None:
        """Read the templates; nothing is asked.

        Args:
            tools: all tools of the suite, in its order; those that are no prompts are passed over.
            checkout: the suite's folder, where the files of templates start, and what may be read.
            plan: the suite's model, asked by prompts that name none.

        Raises:
            TargetError: a template or a schema cannot be used.
            ModelConfigError: a model has no key or no address.
        """
        self._clients = clients
        self._computing = Computing(environ, clients.redact)
        self._found: list[tuple[PromptEntry, str, dict[str, Any], ModelPlan]] = []
        notices: list[str] = []
        for entry in tools:
            if not isinstance(entry, PromptEntry):
                continue
            mark = (marks or {}).get(entry.name)
            where = f"{mark}: tools.{entry.name}" if mark else f"tools.{entry.name}"
            schema = _schema(entry, where)
            text = template_text(entry, checkout)
            template = _template(entry, text, [*schema.get("properties", {})], where)
            own = plan
            if entry.model is not None:
                own = resolve_model(entry.model, environ, where=f"tools.{entry.name}.model")
            self._found.append((entry, text, schema, own))
            notices += [
                f"tools.{entry.name}: its template does not use the parameter {name}" for name in template.unused
            ]
        self.notices = tuple(notices)

    async def open(self) -> Sequence[PromptTool]:
        """Build the clients of the models.

        Raises:
            AgentError: `tool_unavailable`, a package is not installed.
        """
        if self._found:
            # Its start is no part of a call.
            await self._computing.start("prompt")
        try:
            return [
                PromptTool(
                    ToolDefinition(entry.name, entry.description, schema),
                    text,
                    ChatModel(plan, self._clients),
                    self._computing,
                )
                for entry, text, schema, plan in self._found
            ]
        except ModelConfigError as error:
            raise AgentError(str(error), "tool_unavailable") from error

    async def close(self) -> None:
        """End the processes that fill in templates; connections belong to the wire."""
        await self._computing.close()


class PromptTool(Struct, frozen=True):
    """One prompt as a tool."""

    definition: ToolDefinition
    template: str
    model: ChatModel
    computing: Computing
    is_retrieval: ClassVar[bool] = False

    async def call(self, args: dict[str, Any], session: str, *, max_bytes: int, timeout_s: float | None) -> ToolResult:
        """Fill in the template and ask the model (see `Tool.call`)."""
        names = [*self.definition.parameters.get("properties", {})]
        given = {"template": self.template, "parameters": names, "values": args}
        try:
            asked = await self.computing.call("prompt", given, what="the template", code="bad_arguments")
        except AgentError as error:
            raise ToolError(f"the template cannot be filled in: {error.message}", "bad_arguments") from None
        if len(asked.encode("utf-8", "replace")) > max_bytes:
            raise ToolError(f"the prompt holds more than {max_bytes} bytes", "too_large")
        answer = await self._ask(asked, timeout_s)
        return text_result(storable_text(answer.text) + (_CUT_OFF if answer.truncated else ""), max_bytes)

    async def _ask(self, text: str, timeout_s: float | None) -> ChatAnswer:
        try:
            async with TimeLimit(timeout_s):
                return await self.model.ask([Request((Question(text),))])
        except TimeoutError:
            raise ToolError(f"its model did not answer within {timeout_s:g} s", "timeout") from None
        except ModelCallError as error:
            # What the provider says is nothing to the model, and may hold addresses.
            raise ToolError(error.message, error.code, for_model=f"its model gave no answer ({error.code})") from None


def template_text(entry: PromptEntry, checkout: Checkout) -> str:
    """Return the text of a prompt's template.

    Raises:
        TargetError: its file cannot be read.
    """
    if entry.template is not None:
        return entry.template
    try:
        return checkout.read(str(entry.file)).text()
    except (OSError, ForeignError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it {error}"
        raise TargetError(f"tools.{entry.name}.file: {entry.file} cannot be read: {reason}") from None


def _template(entry: PromptEntry, text: str, names: Sequence[str], where: str) -> PromptTemplate:
    try:
        return PromptTemplate(text, names)
    except ValueError as error:
        field = "file" if entry.template is None else "template"
        raise TargetError(f"{where}.{field} is no template that can be used: {error}") from None


def _schema(entry: PromptEntry, where: str) -> dict[str, Any]:
    try:
        schema: dict[str, Any] = storable(parameters_schema(entry.parameters))
        JsonSchema(schema)
    except ValueError as error:
        raise TargetError(f"{where}.parameters: {error}") from None
    return schema
