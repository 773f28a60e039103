"""Judge models: they answer single prompts, and use the same wire as the agent's calls."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.llm.clients import ModelClient, Offer, RequestSender
from holodeck_action.llm.codecs.schema_walk import SchemaError
from holodeck_action.llm.errors import ModelCallError, malformed_error, schema_error
from holodeck_action.llm.messages import AnswerSchema, Question, Reply, Request, TokenProbability
from holodeck_action.llm.model_facts import accepts_sampling, known_model
from holodeck_action.llm.providers import ModelPlan, resolve_model
from holodeck_action.suite.model.providers import LLMProvider
from holodeck_action.text.foreign import Foreign

TEMPERATURE = 0.0
"""Temperature of judges unless agent.yaml sets another one; 0 makes the score of the same answer as stable as possible.
"""

_SAMPLED = frozenset(("temperature", "top_p", "max_tokens", "presence_penalty", "frequency_penalty"))
"""Default settings that are not sent to models that think before they answer. Such models refuse the settings, or would
use up `max_tokens` by thinking.
"""


class JudgeAnswer(Struct, frozen=True):
    """The answer of a judge.

    Attributes:
        text: the answer; JSON if a schema was requested and the model supports schemas.
        structured: whether the provider enforced the schema.
        tokens: the answer's tokens with log probabilities; None if these were not requested or are not supported.
        model: the model's name in the answer.
        truncated: whether the answer was cut off at the token limit.
    """

    text: str
    structured: bool
    tokens: tuple[TokenProbability, ...] | None
    model: str
    truncated: bool


class JudgeModel:
    """A model that acts as a judge; its client is created with the first question."""

    def __init__(self, plan: ModelPlan, sender: RequestSender) -> None:
        """Create the instance; nothing is imported or opened yet.

        Args:
            plan: the model, from `judge_plan`.
            sender: the wire.
        """
        self.plan = plan
        self._sender = sender
        self._preamble = ""
        self._client: ModelClient | None = None
        self._takes_schema = True
        # Models that think before they answer return no log probabilities.
        can = accepts_sampling(known_model(plan.provider, plan.name), plan.settings)
        self._gives_probabilities = plan.provider in ("openai", "azure_openai") and can

    @property
    def label(self) -> str:
        """The judge's name in records, such as `openai/gpt-6.1-sol`."""
        return f"{self.plan.provider}/{self.plan.name}"

    @property
    def gives_probabilities(self) -> bool:
        """Whether the model is assumed to support log probabilities; False once it has refused them."""
        return self._gives_probabilities

    def with_preamble(self, preamble: str) -> Self:
        """Return a copy of the judge; each question to it starts with `preamble`."""
        found = copy(self)
        found._preamble = preamble
        return found

    def redact(self, text: str) -> str:
        """Return a text without the run's secrets."""
        return self._sender.redact(text)

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

        If the model refuses schemas or log probabilities, it is called again without them, and they are omitted from
        all later calls.

        Args:
            prompt: the question.
            system: the system instructions.
            schema: JSON schema of the answer.
            schema_name: the schema's name, which some providers show to the model.
            top_logprobs: number of alternatives per token; None if no log probabilities are needed.
            defaults: values for settings that agent.yaml does not set. Sampling settings are omitted if the model
                supports no temperature.

        Raises:
            ModelCallError: there is no answer, the model declined (`refused`), or the answer is empty (`bad_reply`).
        """
        request = Request((Question(self._preamble + prompt),), system)
        asked_schema = schema if self._takes_schema and self._takes_schemas() else None
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
        # Only a later answer shows that the model refused these options, and not the question.
        self._gives_probabilities = self._gives_probabilities and not without_logprobs
        self._takes_schema = self._takes_schema and not without_schema
        return self._read_reply(reply, asked_schema is not None)

    async def _send(
        self,
        request: Request,
        schema: Mapping[str, Any] | None,
        schema_name: str,
        top_logprobs: int | None,
        defaults: Mapping[str, Any],
    ) -> Reply:
        client = self._lazy_client()
        settings = {**self._default_settings(defaults, client), **client.settings}
        if top_logprobs is not None:
            settings["top_logprobs"] = top_logprobs
        offer = Offer(answer=None if schema is None else AnswerSchema(schema_name, dict(schema)))
        try:
            return await client.ask([request], settings, offer)
        except SchemaError as error:
            raise schema_error(self.plan, str(error)) from None

    def _lazy_client(self) -> ModelClient:
        if self._client is None:
            self._client = ModelClient(self.plan, self._sender)
        return self._client

    def _default_settings(self, defaults: Mapping[str, Any], client: ModelClient) -> dict[str, Any]:
        samples = "temperature" in client.settings
        return {
            name: value
            for name, value in defaults.items()
            if name not in self.plan.written and (samples or name not in _SAMPLED)
        }

    def _takes_schemas(self) -> bool:
        return self._lazy_client().codec.known_model.structured

    def _read_reply(self, reply: Reply, is_structured: bool) -> JudgeAnswer:
        if reply.refusal is not None:
            words = Foreign.of_text(reply.refusal).short_line(self.redact) or "it declined"
            raise ModelCallError(
                f"{self.plan.title} refused to judge: {words}",
                "refused",
                {"provider": self.plan.provider, "model": self.plan.name},
            )
        # Redacted before the text is cut in other places, because a cut secret is no longer found.
        text = self.redact(reply.text)
        if not text.strip():
            raise malformed_error(self.plan, "it is empty", self.redact)
        return JudgeAnswer(
            text=text,
            structured=is_structured,
            tokens=reply.tokens,
            model=reply.model or self.plan.name,
            truncated=reply.finish == "length",
        )


def judge_plan(config: LLMProvider, environ: Mapping[str, str], *, path: str) -> ModelPlan:
    """Resolve the model of a judge.

    A judge's temperature is 0 unless agent.yaml sets another one. Its answers have no token limit unless agent.yaml
    sets one, because a verdict that is cut off is invalid.

    Args:
        config: the validated model reference.
        environ: the job's environment.
        path: path of the reference in the suite, for messages.

    Raises:
        ModelConfigError: see `resolve_model`.
    """
    written = config.model_fields_set
    plan = resolve_model(config, environ, path=path)
    settings = dict(plan.settings)
    if "temperature" in settings and "temperature" not in written:
        settings["temperature"] = TEMPERATURE
    if "max_tokens" not in written:
        settings.pop("max_tokens", None)
    return replace(plan, settings=settings)
