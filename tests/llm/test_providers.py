"""Model references become addresses, keys and settings, and nothing is imported for it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from holodeck_action.llm.model_facts import known_model
from holodeck_action.llm.providers import (
    KeylessEnvironment,
    MissingKeyError,
    ModelConfigError,
    ModelPlan,
    resolve_model,
)
from holodeck_action.llm.reasoning import SentSettings, sent_settings
from holodeck_action.llm.usage import cost_usd
from holodeck_action.suite.model.providers import LLMProvider
from tests.tables import walk

KEYS = {
    "OPENAI_API_KEY": "sk-openai",
    "AZURE_OPENAI_API_KEY": "azure-key",
    "ANTHROPIC_API_KEY": "sk-ant",
}
AZURE = "https://shop.openai.azure.com"


def plan(provider: str, name: str = "gpt-4o", environ: dict[str, str] | None = None, **fields: Any) -> ModelPlan:
    config = LLMProvider.model_validate({"provider": provider, "name": name, **fields})
    return resolve_model(config, KEYS if environ is None else environ)


def sent(provider: str, name: str, **fields: Any) -> SentSettings:
    return sent_settings(plan(provider, name, **fields), known_model(provider, name))


def refusal(provider: str, name: str = "gpt-4o", environ: dict[str, str] | None = None, **fields: Any) -> str:
    with pytest.raises(ModelConfigError) as caught:
        plan(provider, name, environ, **fields)
    return str(caught.value)


@walk(
    ("provider", "variable"),
    [
        ("openai", "OPENAI_API_KEY"),
        ("azure_openai", "AZURE_OPENAI_API_KEY"),
        ("anthropic", "ANTHROPIC_API_KEY"),
    ],
)
@walk("found", [None, "", "  \n"])
def test_a_missing_key_names_the_variable_and_the_yaml(provider: str, variable: str, found: str | None) -> None:
    endpoint = {"endpoint": AZURE} if provider == "azure_openai" else {}
    message = refusal(provider, environ={} if found is None else {variable: found}, **endpoint)
    assert f"set the environment variable {variable} " in message
    assert f"`env: {{{variable}: ${{{{ secrets.{variable} }}}}}}`" in message
    assert f"write `api_key: ${{{variable}}}` below `model:`" in message


@pytest.mark.proves("LLMProvider: api_key")
def test_the_field_goes_before_the_variable_and_an_empty_field_is_none() -> None:
    assert plan("openai", api_key="sk-field").account.key == "sk-field"
    assert plan("openai", api_key="sk-field").key_source == "model.api_key"
    assert plan("openai", api_key="").account.key == "sk-openai"
    assert plan("openai", api_key="").key_source == "OPENAI_API_KEY"
    assert plan("ollama", api_key="sk-field").key_source == "model.api_key"
    assert plan("ollama", api_key="").key_source == "OLLAMA_API_KEY"


def test_a_field_whose_variable_is_not_set_is_a_missing_key_and_no_other_is_taken() -> None:
    with pytest.raises(MissingKeyError) as caught:
        plan("openai", api_key="${SHOP_KEY}")
    assert str(caught.value) == (
        "model.api_key names the variable SHOP_KEY, which is not set: set it "
        "(in a workflow: `env: {SHOP_KEY: ${{ secrets.SHOP_KEY }}}`), or replay a recorded run"
    )
    with pytest.raises(MissingKeyError):
        plan("ollama", api_key="${SHOP_KEY}")


@walk("provider", ["openai", "azure_openai", "anthropic", "ollama"])
@walk("fields", [{}, {"api_key": "${SHOP_KEY}"}])
def test_a_replay_needs_no_key(provider: str, fields: dict[str, Any]) -> None:
    endpoint = {"endpoint": AZURE} if provider == "azure_openai" else {}
    # As in a pull request of a fork, where secrets are empty.
    without = KeylessEnvironment(dict.fromkeys(KEYS, ""))
    assert plan(provider, environ=without, **fields, **endpoint).account.key == "replayed"


def test_a_line_end_after_a_key_is_dropped_and_one_in_it_refused() -> None:
    assert plan("openai", environ={"OPENAI_API_KEY": "sk-a\r\n"}).account.key == "sk-a"
    message = refusal("openai", environ={"OPENAI_API_KEY": "sk-a\nsk-b"})
    assert "OPENAI_API_KEY" in message
    assert "sk-a" not in message


def test_no_key_is_shown() -> None:
    assert "sk-openai" not in repr(plan("openai"))
    assert "sk-field" not in repr(plan("openai", api_key="sk-field"))


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:1234", "[::1]:9"])
def test_a_server_on_this_machine_needs_no_key(host: str) -> None:
    assert plan("openai", environ={}, endpoint=f"http://{host}/v1").account.key == "not-needed"


def test_a_server_elsewhere_needs_one() -> None:
    assert "OPENAI_API_KEY" in refusal("openai", environ={}, endpoint="https://127.example.com/v1")


@pytest.mark.proves("LLMProvider: api_version")
@walk(
    ("provider", "environ", "fields", "expected"),
    [
        ("openai", {}, {}, "https://api.openai.com/v1"),
        ("openai", {"OPENAI_BASE_URL": "https://gate.example/v1/"}, {}, "https://gate.example/v1"),
        ("openai", {"OPENAI_BASE_URL": ""}, {}, "https://api.openai.com/v1"),
        (
            "openai",
            {"OPENAI_BASE_URL": "https://gate.example/v1"},
            {"endpoint": "http://vllm:8000/v1"},
            "http://vllm:8000/v1",
        ),
        ("anthropic", {}, {}, "https://api.anthropic.com"),
        ("anthropic", {"ANTHROPIC_BASE_URL": "https://gate.example"}, {}, "https://gate.example"),
        ("anthropic", {}, {"endpoint": "https://gate.example/v1/"}, "https://gate.example"),
        ("ollama", {}, {}, "http://localhost:11434/v1"),
        ("ollama", {"OLLAMA_BASE_URL": "http://gpu:11434"}, {}, "http://gpu:11434/v1"),
        ("ollama", {}, {"endpoint": "http://gpu:11434/"}, "http://gpu:11434/v1"),
        ("ollama", {}, {"endpoint": "http://gpu:11434/api"}, "http://gpu:11434/v1"),
        ("ollama", {}, {"endpoint": "http://gpu:11434/ollama/v1"}, "http://gpu:11434/ollama/v1"),
        ("azure_openai", {}, {"endpoint": AZURE}, f"{AZURE}/openai/v1"),
        ("azure_openai", {}, {"endpoint": f"{AZURE}/openai/v1/"}, f"{AZURE}/openai/v1"),
        ("azure_openai", {}, {"endpoint": f"{AZURE}/openai"}, f"{AZURE}/openai/v1"),
        ("azure_openai", {}, {"endpoint": AZURE, "api_version": "preview"}, f"{AZURE}/openai/v1"),
        ("azure_openai", {}, {"endpoint": f"{AZURE}/", "api_version": "2024-10-21"}, AZURE),
    ],
)
def test_addresses(provider: str, environ: dict[str, str], fields: dict[str, Any], expected: str) -> None:
    assert plan(provider, environ={**KEYS, **environ}, **fields).account.base_url == expected


@walk("text", ["shop.example", "ftp://x/v1", "http://", "http://a:b/v1", "http://[::1/v1"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    assert refusal("openai", endpoint=text).startswith("model.endpoint is not a URL")


@pytest.mark.parametrize("text", ["https://u:hunter2@x/v1", "https://x/v1?key=hunter2", "https://x/v1#hunter2"])
def test_an_address_with_a_secret_is_refused_without_showing_it(text: str) -> None:
    message = refusal("openai", endpoint=text)
    assert "must not hold" in message
    assert "hunter2" not in message


def test_defaults_of_the_format_are_sent() -> None:
    assert plan("openai").settings == {"temperature": 0.3, "max_tokens": 1000}
    assert plan("openai", temperature=None, max_tokens=None, top_p=0.5).settings == {"top_p": 0.5}


@walk("name", ["o1", "o3-mini", "o4-mini-2025-04-16", "gpt-5", "gpt-5.5", "gpt-7-x", "openai/gpt-5", "ft:o4-mini:x"])
def test_models_that_think_get_no_sampling_and_no_default_limit(name: str) -> None:
    silent = sent("openai", name)
    assert silent.settings == {}
    limit = (
        f"no max_tokens is sent to {name}, whose thinking would use up the default of 1000; write `max_tokens` below "
    )
    assert silent.notices == (f"{limit}`model:` to limit thinking and answer together",)
    assert plan("openai", name).completion_tokens
    asked = sent("openai", name, temperature=0.0, top_p=0.9, max_tokens=700)
    assert asked.settings == {"max_tokens": 700}
    assert asked.notices == (f"temperature and top_p are not sent to {name}, which does not accept it",)
    assert sent("openai", name, max_tokens=None).notices == ()


@walk("name", ["gpt-4o", "gpt-5.2", "gpt-5-chat-latest", "o2x", "solo1", "llama-3.1"])
def test_other_models_get_all(name: str) -> None:
    given = {"temperature": 0.3, "top_p": 0.9, "max_tokens": 1000}
    assert sent("openai", name, top_p=0.9) == SentSettings(given)


@walk(
    ("provider", "fields", "newer"),
    [
        ("openai", {}, True),
        ("openai", {"endpoint": "http://vllm:8000/v1"}, False),
        ("ollama", {}, False),
        ("azure_openai", {"endpoint": AZURE}, True),
        ("azure_openai", {"endpoint": AZURE, "api_version": "2024-06-01"}, False),
        ("azure_openai", {"endpoint": AZURE, "api_version": "2024-10-21"}, True),
        ("azure_openai", {"endpoint": AZURE, "api_version": "preview"}, True),
    ],
)
def test_the_limit_is_sent_under_the_name_the_server_knows(provider: str, fields: dict[str, Any], newer: bool) -> None:
    assert plan(provider, **fields).completion_tokens is newer


def test_anthropic_takes_temperatures_up_to_one() -> None:
    assert refusal("anthropic", "claude-opus-4-1", temperature=1.5) == (
        "model.temperature is 1.5; Anthropic accepts 0 to 1"
    )


def test_anthropic_gets_top_p_alone_unless_a_temperature_is_written() -> None:
    assert plan("anthropic", "claude-x", top_p=0.5).settings == {"top_p": 0.5, "max_tokens": 1000}
    both = plan("anthropic", "claude-x", top_p=0.5, temperature=0.1)
    assert both.settings == {"temperature": 0.1, "top_p": 0.5, "max_tokens": 1000}


@pytest.mark.proves("LLMProvider: auth_provider")
@walk(
    ("auth", "variable", "credential"),
    [
        (None, "ANTHROPIC_API_KEY", "api_key"),
        ("api_key", "ANTHROPIC_API_KEY", "api_key"),
        ("oauth_token", "CLAUDE_CODE_OAUTH_TOKEN", "oauth"),
        ("custom", "ANTHROPIC_AUTH_TOKEN", "bearer"),
    ],
)
def test_anthropic_credentials(auth: str | None, variable: str, credential: str) -> None:
    found = plan("anthropic", "claude-x", {variable: "secret"}, auth_provider=auth)
    assert (found.account.key, found.credential, found.key_source) == ("secret", credential, variable)
    assert variable in refusal("anthropic", "claude-x", {}, auth_provider=auth)


@pytest.mark.parametrize("auth", ["bedrock", "vertex", "foundry"])
def test_clouds_that_are_not_supported_say_what_to_write(auth: str) -> None:
    assert "use `auth_provider: api_key`" in refusal("anthropic", "claude-x", auth_provider=auth)


def test_where_the_reference_stands_is_named() -> None:
    config = LLMProvider.model_validate({"provider": "openai", "name": "gpt-4o"})
    with pytest.raises(ModelConfigError, match=r"below `evaluations\.model:`"):
        resolve_model(config, {}, path="evaluations.model")


def test_prices_are_list_prices_and_unknown_is_not_zero() -> None:
    tokens = {"prompt_tokens": 1_000_000, "completion_tokens": 100_000}
    assert cost_usd("openai", "gpt-4o", **tokens) == pytest.approx(3.5)
    assert cost_usd("azure_openai", "gpt-4o", **tokens) == pytest.approx(3.5)
    cached = cost_usd("openai", "gpt-4o", **tokens, cache_read_tokens=500_000)
    assert cached is not None
    assert cached == pytest.approx(3.5 - 0.625)
    assert cost_usd("openai", "no-such-model", **tokens) is None
    assert cost_usd("ollama", "llama3.2", **tokens) is None
    assert cost_usd("openai", "gpt-4o", prompt_tokens=None, completion_tokens=5) is None
    assert cost_usd("openai", "gpt-4o", prompt_tokens=5, completion_tokens=5, cache_read_tokens=50) is None


def test_resolving_imports_no_client() -> None:
    code = (
        "import sys\n"
        "from holodeck_action.llm.providers import resolve_model\n"
        "from holodeck_action.suite.model.providers import LLMProvider\n"
        "resolve_model(LLMProvider(provider='openai', name='gpt-4o'), {'OPENAI_API_KEY': 'sk-x'})\n"
        "print([name for name in ('openai', 'anthropic', 'pydantic_ai', 'genai_prices') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
