"""Asking a chat model: messages in, an answer or an error in plain words out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holodeck_action.llm.clients import Clients, build_model
from holodeck_action.llm.errors import call_error, filtered, malformed
from holodeck_action.llm.prices import cost_usd
from holodeck_action.llm.providers import ModelPlan
from holodeck_action.llm.tools import ToolDefinition
from holodeck_action.results.record import Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model asks for; `args` as it wrote them, `id` names the call in the conversation."""

    id: str
    name: str
    args: str | dict[str, Any]


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """What a model answered.

    Attributes:
        text: the answer, empty when the model said nothing; a refusal is an answer.
        message: pydantic-ai's message, for the history of the conversation.
        usage: tokens and list price, None where not told.
        calls: the tools it asks for before it goes on, in order; the text is then no answer yet.
        truncated: whether the answer stops at `max_tokens`.
        refused: whether the model declined to answer.
    """

    text: str
    message: ModelResponse
    usage: Usage
    calls: tuple[ToolCall, ...] = ()
    truncated: bool = False
    refused: bool = False


class ChatModel:
    """A model that is asked again and again; all conversations share it."""

    def __init__(self, plan: ModelPlan, clients: Clients, tools: Sequence[ToolDefinition] = ()) -> None:
        """Build the model's client, which imports the provider's package (about a second).

        Args:
            plan: the model.
            clients: the wire.
            tools: what the model may call.

        Raises:
            ModelConfigError: the package is not installed.
        """
        built = build_model(plan, clients)

        from pydantic_ai import direct
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.tools import ToolDefinition as FunctionTool

        self.plan = plan
        self.notices = built.notices
        self._model = built.model
        self._settings = built.settings
        self._parameters = ModelRequestParameters(
            function_tools=[
                FunctionTool(name=tool.name, description=tool.description, parameters_json_schema=tool.parameters)
                for tool in tools
            ]
        )
        self._request = direct.model_request

    async def ask(self, messages: Sequence[ModelMessage]) -> ChatAnswer:
        """Ask for the next message of a conversation.

        Raises:
            ModelCallError: no answer came, or a broken one, or the provider's filter took it away.
        """
        try:
            response = await self._request(
                self._model,
                messages,
                model_settings=self._settings,
                model_request_parameters=self._parameters,
                instrument=False,
            )
        except Exception as error:
            raise call_error(error, self.plan) from error
        return self._answer(response)

    def _answer(self, response: ModelResponse) -> ChatAnswer:
        details = response.provider_details or {}
        text = response.text or ""
        refusal = details.get("refusal")
        refused = bool(refusal) or details.get("finish_reason") == "refusal"
        if response.finish_reason == "content_filter" and not refused:
            raise filtered(self.plan, details)
        if self.plan.provider == "anthropic" and response.finish_reason is None and not details.get("finish_reason"):
            # Its streams are joined here, and one that ends too early would pass for a whole answer.
            raise malformed(self.plan, "it breaks off before its end")
        if response.finish_reason == "error":
            raise malformed(self.plan, "it ended with an error")
        if not text and isinstance(refusal, str):
            text = refusal
        calls = tuple(
            ToolCall(call.tool_call_id, call.tool_name, "{}" if call.args is None else call.args)
            for call in response.tool_calls
        )
        return ChatAnswer(text, response, self._usage(response), calls, response.finish_reason == "length", refused)

    def _usage(self, response: ModelResponse) -> Usage:
        usage = response.usage
        if not usage.input_tokens and not usage.output_tokens:
            # No provider reads and writes nothing: the server did not tell.
            return Usage()
        cost = cost_usd(
            self.plan.provider,
            response.model_name or self.plan.name,
            prompt_tokens=usage.input_tokens,
            completion_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
        )
        return Usage(usage.input_tokens, usage.output_tokens, cost)
