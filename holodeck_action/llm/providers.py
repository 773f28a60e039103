"""Resolves the URL, key and settings of a model that a suite names.

Nothing is imported, opened or requested here, so that a missing key is found before a run starts.
`holodeck_action.llm.clients` creates the client of a plan. A service with OpenAI's API is an entry of `COMPATIBLE`; any
other provider is a function in `_RESOLVERS`, and a codec in `llm/codecs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from holodeck_action.llm.calls import Account
from holodeck_action.llm.model_facts import known_model
from holodeck_action.suite.hosts import is_loopback
from holodeck_action.suite.model.providers import (
    ADDRESS_VARIABLES,
    COMPATIBLE,
    ApiName,
    Effort,
    LLMProvider,
    ProviderName,
)
from holodeck_action.text.lazy_patterns import lazy_pattern

Credential = Literal["api_key", "bearer", "oauth"]

_OPENAI = "https://api.openai.com/v1"
_ANTHROPIC = "https://api.anthropic.com"
_OLLAMA = "http://localhost:11434/v1"
_NO_KEY = "not-needed"
"""API key sent to servers that need no key, because the header must not be empty."""

_DATED_VERSION = lazy_pattern(r"\d{4}-\d{2}-\d{2}")
_COMPLETION_TOKENS_SINCE = "2024-09"
"""First version of the Azure OpenAI API that supports `max_completion_tokens`."""

_OAUTH_BETA = "oauth-2025-04-20"
_PROVIDER_WORDS = {
    "openai": "OpenAI",
    "azure_openai": "Azure OpenAI",
    "anthropic": "Anthropic",
    "ollama": "Ollama",
    **{name: service.title for name, service in COMPATIBLE.items()},
}
_ANTHROPIC_KEYS: Mapping[str, tuple[Credential, str]] = {
    "oauth_token": ("oauth", "CLAUDE_CODE_OAUTH_TOKEN"),
    "custom": ("bearer", "ANTHROPIC_AUTH_TOKEN"),
}
"""How the key is sent, and the environment variable with the key, by `auth_provider`. Other values mean `api_key` with
ANTHROPIC_API_KEY."""
_OTHER_CLOUDS = ("bedrock", "vertex", "foundry")


_REFERENCE = lazy_pattern(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""Matches a reference `${NAME}` that remains in an `api_key`, because the environment variable is not set."""

_REPLAYED = "replayed"


class KeylessEnvironment(dict[str, str]):
    """The environment variables of a replay. No request is sent, so no model needs a key."""


class ModelConfigError(ValueError):
    """The configuration of a model is invalid; the message names the field or variable to set."""


class MissingKeyError(ModelConfigError):
    """A key is missing; the rest of the configuration may be valid."""


class Reasoning(Struct, frozen=True):
    """The reasoning settings of a suite's model.

    Attributes:
        effort: value of `effort` in the block; None if it is not set.
        budget: maximum thinking tokens of `claude.extended_thinking`, in addition to `max_tokens`; None if extended
            thinking is off.
        block: name of the block of agent.yaml with these settings, `claude` or `openai`.
    """

    effort: Effort | None = None
    budget: int | None = None
    block: str = "openai"


class ModelPlan(Struct, frozen=True):
    """A model with resolved URL, key and settings; creating it imports and opens nothing.

    Attributes:
        provider: the provider's name in agent.yaml.
        name: the name of the model, or of the deployment for Azure OpenAI.
        account: the service and the key.
        credential: header in which the key is sent.
        key_source: the field or variable that contains the key, for messages.
        settings: the request settings (`temperature`, `top_p`, `max_tokens`, …; see
            `codecs.codec.Codec.build_request`).
        api_version: the query parameter `api-version`; Azure OpenAI only.
        deployments: whether Azure OpenAI is called under `/openai/deployments/NAME` (a dated version), otherwise under
            `/openai/v1`.
        completion_tokens: whether the token limit of the answer is sent as `max_completion_tokens`, otherwise as
            `max_tokens`.
        written: names of the settings that the suite sets; all other settings have default values.
        reasoning: the reasoning settings.
        api: the API of OpenAI that is called first; it means nothing for Anthropic's models.
        api_written: whether the suite sets the API, so that no refusal changes it.
    """

    provider: ProviderName
    name: str
    account: Account
    credential: Credential
    key_source: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    api_version: str | None = None
    deployments: bool = False
    completion_tokens: bool = False
    written: frozenset[str] = frozenset()
    reasoning: Reasoning = field(default_factory=Reasoning)
    api: ApiName = "chat"
    api_written: bool = False

    @property
    def title(self) -> str:
        """The model's name in messages, such as `OpenAI model gpt-6.1-sol`."""
        noun = "deployment" if self.provider == "azure_openai" else "model"
        return f"{_PROVIDER_WORDS[self.provider]} {noun} {self.name}"


def resolve_model(config: LLMProvider, environ: Mapping[str, str], *, path: str = "model") -> ModelPlan:
    """Resolve the URL, key and settings of a model.

    The key is `api_key` of the model reference, or else the value of the provider's environment variable; an empty key
    counts as missing. The URL is `endpoint`, or else the value of `OPENAI_BASE_URL`, `ANTHROPIC_BASE_URL` or
    `OLLAMA_BASE_URL`, or else the provider's default URL.

    Args:
        config: the validated model reference.
        environ: the job's environment variables; `KeylessEnvironment` if no key is needed.
        path: path of the model reference in agent.yaml, for messages.

    Raises:
        MissingKeyError: there is no key.
        ModelConfigError: a URL is invalid, or the provider does not support a value.
    """
    return _RESOLVERS[config.provider](config, environ, path)


def with_api(plan: ModelPlan, written: ApiName | None) -> ModelPlan:
    """Return the plan of the suite's own model with the API that it calls.

    Args:
        plan: the model. Judges and others keep to chat completions, which alone give log probabilities for all models.
        written: `openai.api` of the suite; None if it is not set.
    """
    if written is not None:
        return replace(plan, api=written, api_written=True)
    return replace(plan, api="responses") if plan.provider == "openai" and _is_openai(plan.account.base_url) else plan


def _is_openai(base_url: str) -> bool:
    """Return whether a URL is OpenAI's own, in any of its regions."""
    return f".{urlsplit(base_url).hostname}".endswith(f".{urlsplit(_OPENAI).hostname}")


def _resolve_openai(config: LLMProvider, environ: Mapping[str, str], path: str) -> ModelPlan:
    base_url = _resolve_url(config, environ, path, _OPENAI)
    key, source = _find_key(config, environ, path, "OPENAI_API_KEY", base_url)
    return ModelPlan(
        "openai",
        config.name,
        Account("openai", base_url, key),
        "bearer",
        source,
        _settings(config),
        # All compatible servers support `max_tokens`; OpenAI's reasoning models only `max_completion_tokens`.
        completion_tokens=_is_openai(base_url) or known_model("openai", config.name).reasons,
        written=frozenset(config.model_fields_set),
    )


def _resolve_azure_openai(config: LLMProvider, environ: Mapping[str, str], path: str) -> ModelPlan:
    endpoint = _check_url(config.endpoint or "", f"{path}.endpoint")
    key, source = _find_key(config, environ, path, "AZURE_OPENAI_API_KEY", None)
    known = known_model("azure_openai", config.name)
    version = config.api_version
    root = endpoint.removesuffix("/openai/v1").removesuffix("/openai")
    deployments = bool(version and _DATED_VERSION.match(version)) and not endpoint.endswith("/openai/v1")
    return ModelPlan(
        "azure_openai",
        config.name,
        Account("azure_openai", root if deployments else f"{root}/openai/v1", key),
        "api_key",
        source,
        _settings(config),
        api_version=version,
        deployments=deployments,
        completion_tokens=known.completion_tokens
        and (known.reasons or not deployments or (version or "") >= _COMPLETION_TOKENS_SINCE),
        written=frozenset(config.model_fields_set),
    )


def _resolve_anthropic(config: LLMProvider, environ: Mapping[str, str], path: str) -> ModelPlan:
    if config.auth_provider in _OTHER_CLOUDS:
        raise ModelConfigError(
            f"{path}.auth_provider is {config.auth_provider}, which is not supported; "
            "use `auth_provider: api_key` with ANTHROPIC_API_KEY"
        )
    base_url = _resolve_url(config, environ, path, _ANTHROPIC).removesuffix("/v1")
    credential, variable = _ANTHROPIC_KEYS.get(config.auth_provider or "", ("api_key", "ANTHROPIC_API_KEY"))
    key, source = _find_key(config, environ, path, variable, None)
    if config.temperature is not None and config.temperature > 1:
        raise ModelConfigError(f"{path}.temperature is {config.temperature:g}; Anthropic accepts 0 to 1")
    settings = _settings(config)
    if config.top_p is not None and "temperature" not in config.model_fields_set:
        # Newer models refuse temperature together with top_p, and the suite only sets top_p.
        settings.pop("temperature", None)
    if credential == "oauth":
        settings["betas"] = (_OAUTH_BETA,)
    return ModelPlan(
        "anthropic",
        config.name,
        Account("anthropic", base_url, key),
        credential,
        source,
        settings,
        written=frozenset(config.model_fields_set),
    )


def _resolve_ollama(config: LLMProvider, environ: Mapping[str, str], path: str) -> ModelPlan:
    base_url = _resolve_url(config, environ, path, _OLLAMA).removesuffix("/api")
    if urlsplit(base_url).path in ("", "/"):
        base_url = f"{base_url}/v1"
    given = _written_key(config, environ, path)
    key = given or environ.get("OLLAMA_API_KEY", "").strip() or _NO_KEY
    return ModelPlan(
        "ollama",
        config.name,
        Account("ollama", base_url, _check_key(key, f"{path}.api_key or OLLAMA_API_KEY")),
        "bearer",
        f"{path}.api_key" if given else "OLLAMA_API_KEY",
        _settings(config),
        written=frozenset(config.model_fields_set),
    )


def _resolve_compatible(config: LLMProvider, environ: Mapping[str, str], path: str) -> ModelPlan:
    service = COMPATIBLE[config.provider]
    variable = ADDRESS_VARIABLES[config.provider]
    if config.endpoint is None and not environ.get(variable, "").strip() and not service.address:
        raise ModelConfigError(
            f"{path}.endpoint is missing: {service.title} has a separate address for each customer; write it "
            "there, or set "
            f"{variable}"
        )
    base_url = _resolve_url(config, environ, path, service.address)
    key, source = _find_key(config, environ, path, service.key, base_url)
    return ModelPlan(
        config.provider,
        config.name,
        Account(config.provider, base_url, key),
        "bearer",
        source,
        _settings(config),
        written=frozenset(config.model_fields_set),
    )


_RESOLVERS: Mapping[ProviderName, Callable[[LLMProvider, Mapping[str, str], str], ModelPlan]] = {
    "openai": _resolve_openai,
    "azure_openai": _resolve_azure_openai,
    "anthropic": _resolve_anthropic,
    "ollama": _resolve_ollama,
    **dict.fromkeys(COMPATIBLE, _resolve_compatible),
}


def _settings(config: LLMProvider) -> dict[str, Any]:
    """Return the settings of every request; `reasoning.sent_settings` omits those that the model does not accept."""
    named = (("temperature", config.temperature), ("top_p", config.top_p), ("max_tokens", config.max_tokens))
    return {name: value for name, value in named if value is not None}


def _written_key(config: LLMProvider, environ: Mapping[str, str], path: str) -> str:
    given = config.api_key.get_secret_value().strip() if config.api_key is not None else ""
    if isinstance(environ, KeylessEnvironment):
        return _REPLAYED
    if unset := _REFERENCE.search(given):
        name = unset[1]
        raise MissingKeyError(
            f"{path}.api_key names the variable {name}, which is not set: set it "
            f"(in a workflow: `env: {{{name}: ${{{{ secrets.{name} }}}}}}`), or replay a recorded run"
        )
    return given


def _find_key(
    config: LLMProvider, environ: Mapping[str, str], path: str, variable: str, base_url: str | None
) -> tuple[str, str]:
    """Return the key, and the field or variable that contains it."""
    if given := _written_key(config, environ, path):
        return _check_key(given, f"{path}.api_key"), f"{path}.api_key"
    if found := environ.get(variable, "").strip():
        return _check_key(found, variable), variable
    if base_url is not None and is_loopback(urlsplit(base_url).hostname or ""):
        return _NO_KEY, variable
    place = path if "`" in path else f"`{path}:`"
    raise MissingKeyError(
        f"{_PROVIDER_WORDS[config.provider]} needs a key for the model {config.name}, but none is set: set the "
        f"environment variable {variable} (in a workflow: "
        f"`env: {{{variable}: ${{{{ secrets.{variable} }}}}}}`), or write `api_key: ${{{variable}}}` below {place}"
    )


def _check_key(key: str, source: str) -> str:
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ModelConfigError(
            f"the key in {source} holds a blank, a line break or another character that cannot occur in a key"
        )
    return key


def _resolve_url(config: LLMProvider, environ: Mapping[str, str], path: str, default: str) -> str:
    if config.endpoint is not None:
        return _check_url(config.endpoint, f"{path}.endpoint")
    variable = ADDRESS_VARIABLES[config.provider]
    return _check_url(environ.get(variable, "").strip() or default, variable)


def _check_url(text: str, source: str) -> str:
    """Return a URL without a trailing slash after checking it.

    Raises:
        ModelConfigError: the URL is invalid; the message does not repeat it, since it may contain a password.
    """
    try:
        parts = urlsplit(text.strip())
        good = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good:
        raise ModelConfigError(f"{source} is not a URL; write one such as https://models.example.com/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ModelConfigError(f"{source} must not hold a user, a password, a query or a fragment; use api_key")
    return text.strip().rstrip("/")
