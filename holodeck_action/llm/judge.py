"""Models that grade: one prompt in, one answer out, over the same wire as the agent's calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.llm.clients import Clients, ModelClient
from holodeck_action.llm.codecs.schema_walk import SchemaError
from holodeck_action.llm.errors import ModelCallError, malformed, unwritable
from holodeck_action.llm.messages import AnswerSchema, Question, Reply, Request, TokenProbability
from holodeck_action.llm.providers import REASONING, ModelPlan, resolve_model
from holodeck_action.suite.model.providers import LLMProvider
from holodeck_action.text.foreign import Foreign

TEMPERATURE = 0.0
"""Sent where the reference does not say another one: the same answer should get the same score."""

_SAMPLED = frozenset(("temperature", "top_p", "max_tokens", "presence_penalty", "frequency_penalty"))
"""Settings for models that sample; those that think first refuse them, or would be cut short by the limit."""


class JudgeAnswer(Struct, frozen=True):
    """What a judge answered.

    Attributes:
        text: the answer, JSON where a schema was asked for and the model takes one.
        structured: whether the model was held to the schema.
        tokens: the answer's tokens; None where log probabilities were not asked for, or the model gives none.
        model: the model's name as the answer gave it.
        truncated: whether the answer stops at the token limit.
    """

    text: str
    structured: bool
    tokens: tuple[TokenProbability, ...] | None
    model: str
    truncated: bool


class JudgeModel:
    """A model that is asked to grade; its client is built with the first question."""

    def __init__(self, plan: ModelPlan, clients: Clients) -> None:
        """Prepare; nothing is imported or opened.

        Args:
            plan: the model, from `judge_plan`.
            clients: the wire.
        """
        self.plan = plan
        self._clients = clients
        self._client: ModelClient | None = None
        self._takes_schema = True
        # Models that think first give none.
        self._gives_probabilities = plan.provider in ("openai", "azure_openai") and not REASONING.search(plan.name)

    @property
    def label(self) -> str:
        """The judge's name in records, such as `openai/gpt-4o`."""
        return f"{self.plan.provider}/{self.plan.name}"

    @property
    def gives_probabilities(self) -> bool:
        """Whether log probabilities can be asked for, as far as is known."""
        return self._gives_probabilities

    def redact(self, text: str) -> str:
        """Return a text without the run's secrets."""
        return self._clients.redact(text)

    async def ask(
        self,
        prompt: str,
        *,
        system: str | None = None,
        schema: Mapping[str, Any] | None = None,
        schema_name: str = "verdict",
        top_logprobs: int | None = None,
        defaults: Mapping[str, Any] | None = None,
    ) -> JudgeAnswer:
        """Ask one question.

        A model that refuses schemas or log probabilities is asked again without them, and never with them after that.

        Args:
            prompt: what is asked.
            system: instructions beside it.
            schema: JSON schema of the answer.
            schema_name: the schema's name, which some providers show to the model.
            top_logprobs: how many alternatives of every token to give; None for no log probabilities.
            defaults: request settings where the reference writes none; a model that takes no temperature gets none of
                those that a sampling model would.

        Raises:
            ModelCallError: no answer came, or the model declined (`refused`), or the answer is empty (`bad_reply`).
        """
        request = Request((Question(prompt),), system)
        asked_schema = schema if self._takes_schema and self._native() else None
        asked_logprobs = top_logprobs if self._gives_probabilities else None
        without_schema = without_logprobs = False
        while True:
            try:
                reply = await self._send(request, asked_schema, schema_name, asked_logprobs, defaults or {})
                break
            except ModelCallError as error:
                if error.code != "bad_request" or (asked_schema is None and asked_logprobs is None):
                    raise
                if asked_logprobs is not None:
                    asked_logprobs, without_logprobs = None, True
                else:
                    asked_schema, without_schema = None, True
        # Only an answer shows that the refusal was about the way of asking, not about what was asked.
        self._gives_probabilities = self._gives_probabilities and not without_logprobs
        self._takes_schema = self._takes_schema and not without_schema
        return self._answer(reply, asked_schema is not None)

    async def _send(
        self,
        request: Request,
        schema: Mapping[str, Any] | None,
        schema_name: str,
        top_logprobs: int | None,
        defaults: Mapping[str, Any],
    ) -> Reply:
        client = self._model()
        settings = {**self._unwritten(defaults, client), **client.settings}
        if top_logprobs is not None:
            settings["top_logprobs"] = top_logprobs
        answer = None if schema is None else AnswerSchema(schema_name, dict(schema))
        try:
            offered = client.codec.offer((), answer)
        except SchemaError as error:
            raise unwritable(self.plan, str(error)) from None
        return await client.ask([request], settings, offered)

    def _model(self) -> ModelClient:
        if self._client is None:
            self._client = ModelClient(self.plan, self._clients)
        return self._client

    def _unwritten(self, defaults: Mapping[str, Any], client: ModelClient) -> dict[str, Any]:
        samples = "temperature" in client.settings
        return {
            name: value
            for name, value in defaults.items()
            if name not in self.plan.written and (samples or name not in _SAMPLED)
        }

    def _native(self) -> bool:
        return self._model().codec.known.structured

    def _answer(self, reply: Reply, structured: bool) -> JudgeAnswer:
        if reply.refusal is not None:
            words = Foreign.of_text(reply.refusal).words(self.redact) or "it declined"
            raise ModelCallError(
                f"{self.plan.title} refused to judge: {words}",
                "refused",
                {"provider": self.plan.provider, "model": self.plan.name},
            )
        # What is made of it is cut in many places, and it is recorded without secrets, too.
        text = self.redact(reply.text)
        if not text.strip():
            raise malformed(self.plan, "it is empty", self.redact)
        return JudgeAnswer(
            text=text,
            structured=structured,
            tokens=reply.tokens,
            model=reply.model or self.plan.name,
            truncated=reply.finish == "length",
        )


def judge_plan(config: LLMProvider, environ: Mapping[str, str], *, where: str) -> ModelPlan:
    """Decide how a judge is reached and asked.

    A judge's temperature is 0 unless the reference says another one, and its answers have no token limit unless the
    reference gives one: a cut verdict is none.

    Args:
        config: the validated reference.
        environ: the job's environment.
        where: path of the reference in the suite, for messages.

    Raises:
        ModelConfigError: see `resolve_model`.
    """
    written = config.model_fields_set
    plan = resolve_model(config, environ, where=where)
    settings = dict(plan.settings)
    if "temperature" in settings and "temperature" not in written:
        settings["temperature"] = TEMPERATURE
    if "max_tokens" not in written:
        settings.pop("max_tokens", None)
    return replace(plan, settings=settings)
