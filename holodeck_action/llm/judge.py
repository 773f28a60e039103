"""Models that grade: one prompt in, one answer out, over the same wire as the agent's calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from holodeck_action.llm.clients import BuiltModel, Clients, build_model
from holodeck_action.llm.errors import ModelCallError, call_error, malformed, refusal_of
from holodeck_action.llm.providers import REASONING, ModelPlan, resolve_model
from holodeck_action.suite.providers import LLMProvider
from holodeck_action.text.plain import cut

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelRequest, ModelResponse
    from pydantic_ai.models import ModelRequestParameters

DEFAULT_JUDGE = LLMProvider(provider="ollama", name="gpt-oss:20b")
"""Who grades where neither metric nor suite names a model (DeepEval data model §1.1)."""

TEMPERATURE = 0.0
"""Sent where the reference does not say another one: the same answer should get the same score."""

_SAMPLED = frozenset(("temperature", "top_p", "max_tokens", "presence_penalty", "frequency_penalty"))
"""Settings for models that sample; those that think first refuse them, or would be cut short by the limit."""


@dataclass(frozen=True, slots=True)
class TokenProbability:
    """A token of an answer with its log probability, and those that could have stood in its place."""

    token: str
    logprob: float
    alternatives: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class JudgeAnswer:
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
        self._built: BuiltModel | None = None
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
        from pydantic_ai.messages import ModelRequest, UserPromptPart

        request = ModelRequest(parts=[UserPromptPart(prompt)], instructions=system)
        asked_schema = schema if self._takes_schema and self._native() else None
        asked_logprobs = top_logprobs if self._gives_probabilities else None
        without_schema = without_logprobs = False
        while True:
            try:
                response = await self._send(request, asked_schema, schema_name, asked_logprobs, defaults or {})
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
        return self._answer(response, asked_schema is not None)

    async def _send(
        self,
        request: ModelRequest,
        schema: Mapping[str, Any] | None,
        schema_name: str,
        top_logprobs: int | None,
        defaults: Mapping[str, Any],
    ) -> ModelResponse:
        from pydantic_ai import direct

        built = self._model()
        settings: dict[str, Any] = {**self._unwritten(defaults, built), **built.settings}
        if top_logprobs is not None:
            settings |= {"openai_logprobs": True, "openai_top_logprobs": top_logprobs}
        try:
            return await direct.model_request(
                built.model,
                [request],
                model_settings=cast(Any, settings),
                model_request_parameters=_parameters(schema, schema_name),
                instrument=False,
            )
        except Exception as error:
            raise call_error(error, self.plan) from error

    def _model(self) -> BuiltModel:
        if self._built is None:
            self._built = build_model(self.plan, self._clients)
        return self._built

    def _unwritten(self, defaults: Mapping[str, Any], built: BuiltModel) -> dict[str, Any]:
        samples = "temperature" in built.settings
        return {
            name: value
            for name, value in defaults.items()
            if name not in self.plan.written and (samples or name not in _SAMPLED)
        }

    def _native(self) -> bool:
        profile = cast(Mapping[str, Any], self._model().model.profile)
        return bool(profile.get("supports_json_schema_output"))

    def _answer(self, response: ModelResponse, structured: bool) -> JudgeAnswer:
        refusal = refusal_of(response, self.plan)
        if refusal is not None:
            raise ModelCallError(
                f"{self.plan.title} refused to judge: {cut(refusal or 'it declined', 200)}",
                "refused",
                {"provider": self.plan.provider, "model": self.plan.name},
            )
        text = response.text or ""
        if not text.strip():
            raise malformed(self.plan, "it is empty")
        return JudgeAnswer(
            text=text,
            structured=structured,
            tokens=_tokens((response.provider_details or {}).get("logprobs")),
            model=response.model_name or self.plan.name,
            truncated=response.finish_reason == "length",
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


def _parameters(schema: Mapping[str, Any] | None, name: str) -> ModelRequestParameters:
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition

    if schema is None:
        return ModelRequestParameters()
    return ModelRequestParameters(
        output_mode="native", output_object=OutputObjectDefinition(json_schema=dict(schema), name=name)
    )


def _tokens(listed: Any) -> tuple[TokenProbability, ...] | None:
    if not isinstance(listed, list) or not listed:
        return None
    return tuple(
        TokenProbability(
            str(item["token"]),
            float(item["logprob"]),
            tuple((str(other["token"]), float(other["logprob"])) for other in item.get("top_logprobs") or ()),
        )
        for item in listed
    )
