"""Converts the providers of a promptfoo configuration: models, programs and services become targets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from holodeck_action.extensions.importers.converted_suite import AGENT, variable
from holodeck_action.extensions.importers.grader_file import library_code
from holodeck_action.extensions.importers.import_report import Outcome, Row
from holodeck_action.extensions.importers.promptfoo.prompts import Prompt
from holodeck_action.extensions.importers.source import Place, Source, UnfitError, place_of, plain, without_none
from holodeck_action.suite.yaml.document import MarkedList

_MODULE = AGENT.removesuffix(".py")
_CHAT = ("chat", "completion", "responses", "messages")
_SERVICES = {
    "openai": "openai",
    "anthropic": "anthropic",
    "azure": "azure_openai",
    "azureopenai": "azure_openai",
    "ollama": "ollama",
    "google": "gemini",
    "mistral": "mistral",
    "groq": "groq",
    "cohere": "cohere",
    "deepseek": "deepseek",
    "openrouter": "openrouter",
}
"""The name of each provider in agent.yaml, by its name in promptfoo."""
_OTHER_KINDS = frozenset(
    (
        "embedding",
        "embeddings",
        "assistant",
        "realtime",
        "image",
        "moderation",
        "transcription",
        "tts",
        "live",
        "agents",
    )
)
_SETTINGS = {"temperature": "temperature", "top_p": "top_p", "max_tokens": "max_tokens"}
_UNUSED_SETTINGS = frozenset(("apiKey", "apiKeyEnvar", "apiBaseUrl", "apiHost", "baseURL", *_SETTINGS))


class Provider(Struct, frozen=True):
    """A provider of the configuration, which becomes a suite.

    Attributes:
        place: position of the provider in the file.
        name: label of the provider, or its id if it has no label.
        ids: names by which cases may refer to the provider.
        model: value of `model` in agent.yaml; None if the provider is a program or service.
        target: value of `target` in the policy file; None if the provider is a model.
        agent: source code of a Python module that calls the provider; empty if no module is needed.
        response_format: JSON schema of the answers; None if they are free text.
        prompts: labels of the prompts that the provider receives; None if it receives all prompts.
        notes: how the import differs from promptfoo.
        problem: reason why the provider cannot be imported; empty if there is none.
    """

    place: Place
    name: str
    ids: frozenset[str]
    model: Mapping[str, Any] | None = None
    target: Any = None
    agent: str = ""
    response_format: Any = None
    prompts: tuple[str, ...] | None = None
    notes: tuple[str, ...] = field(default=())
    problem: str = ""


def providers_of(source: Source, configuration: Mapping[str, Any]) -> list[Provider]:
    """Return all providers; a provider that cannot be imported has a `problem` and an agent that raises."""
    key = "providers" if configuration.get("providers") is not None else "targets"
    written = configuration.get(key)
    if written is None:
        return [
            _placeholder_provider(
                place_of(source.name, configuration), "provider", "the configuration names no provider; set target"
            )
        ]
    listed = written if isinstance(written, list) else [written]
    whole = place_of(source.name, configuration, key)
    return [
        _read_provider(source, item, place_of(source.name, listed, index) if isinstance(listed, MarkedList) else whole)
        for index, item in enumerate(listed)
    ]


def model_of(entry: Any) -> dict[str, Any] | None:
    """Return the model reference for a provider; None if the provider is not a model that can be called here."""
    id_, config = _id_and_config(entry)
    service, _, rest = id_.partition(":")
    kind, colon, name = rest.partition(":")
    if kind in _OTHER_KINDS or service not in _SERVICES:
        return None
    if not colon or kind not in _CHAT:
        name = rest
    provider = _SERVICES[service]
    if not name or (provider == "azure_openai" and not (config.get("apiHost") or config.get("apiBaseUrl"))):
        return None
    made: dict[str, Any] = {"provider": provider, "name": name}
    made.update(without_none((ours, config.get(theirs)) for theirs, ours in _SETTINGS.items()))
    address = config.get("apiBaseUrl") or config.get("baseURL")
    if config.get("apiHost"):
        address = address or f"https://{str(config['apiHost']).removeprefix('https://')}"
    if address:
        made["endpoint"] = _with_variables(str(address))
    if config.get("apiKeyEnvar"):
        made["api_key"] = variable(str(config["apiKeyEnvar"]))
    return made


def _id_and_config(entry: Any) -> tuple[str, dict[str, Any]]:
    """Return the id and configuration of a provider.

    A provider is a string, a mapping with `id`, or a mapping whose only key is the id.
    """
    if isinstance(entry, str):
        return entry, {}
    if not isinstance(entry, dict):
        return "", {}
    if isinstance(entry.get("id"), str):
        config = entry.get("config")
        return entry["id"], plain(config) if isinstance(config, dict) else {}
    if len(entry) == 1:
        [(key, value)] = entry.items()
        config = value.get("config") if isinstance(value, dict) else None
        return str(key), plain(config) if isinstance(config, dict) else {}
    return "", {}


def _read_provider(source: Source, entry: Any, place: Place) -> Provider:
    id_, config = _id_and_config(entry)
    body = entry if isinstance(entry, dict) else {}
    inner = body.get(id_) if id_ in body else body
    label = str(inner.get("label") or "") if isinstance(inner, dict) else ""
    prompts = inner.get("prompts") if isinstance(inner, dict) else None
    prompts = [prompts] if isinstance(prompts, str) else prompts
    name = label or id_ or "provider"
    shared = {
        "ids": frozenset(part for part in (id_, label) if part),
        "prompts": tuple(map(str, prompts)) if isinstance(prompts, list) else None,
    }
    try:
        if any(isinstance(inner, dict) and inner.get(key) for key in ("transform", "delay")):
            raise UnfitError("its answers are transformed or delayed; do that in your own agent")
        return Provider(place, name, **{**shared, **_target_fields(source, id_, config)})
    except UnfitError as error:
        return _placeholder_provider(place, name, str(error), **shared)


def _placeholder_provider(place: Place, name: str, reason: str, **shared: Any) -> Provider:
    text = f"{place}: the provider {name} was not imported: call your agent here"
    code = f"def answer(messages, request):\n    {'Raise an error: nothing may answer in place of the agent.'!a}\n"
    code += f"    raise NotImplementedError({text!a})\n"
    shared.setdefault("ids", frozenset())
    return Provider(place, name, target=f"python:{_MODULE}:answer", agent=code, problem=reason, **shared)


def _target_fields(source: Source, id_: str, config: Mapping[str, Any]) -> dict[str, Any]:
    model = model_of({"id": id_, "config": dict(config)})
    if model is not None:
        return _model_fields(model, config)
    if id_ == "echo":
        return _agent_fields("echo_prompt(request)")
    found = re.fullmatch(r"(?:python:|file://)(?:file://)?(.+?\.py)(?::(\w+))?", id_)
    if found:
        path = source.file_named(found[1])
        file = f"{PATH_MARK}{str(path)!a}{PATH_MARK}"
        call = f"python_provider(request, {file}, {found[2] or 'call_api'!a}, {dict(config)!a})"
        return _agent_fields(call)
    if id_.startswith("exec:"):
        folder = f"{PATH_MARK}{str(source.path.parent)!a}{PATH_MARK}"
        return _agent_fields(f"run_command(request, {id_.removeprefix('exec:').strip()!a}, {folder}, {dict(config)!a})")
    if re.match(r"https?(:|$)", id_):
        return _service_fields(str(config.get("url") or id_), config)
    raise UnfitError("this kind of provider is not supported; write an agent in Python, a command or a service")


PATH_MARK = "\x01"
"""Marks both ends of a file path that the written module must resolve from its own folder."""


def _agent_fields(call: str) -> dict[str, Any]:
    code = f'def answer(messages, request):\n    """Answer one turn."""\n    return {call}\n'
    used = library_code(("providers_code.py",), re.sub(f"{PATH_MARK}.*?{PATH_MARK}", "''", code))
    return {"target": f"python:{_MODULE}:answer", "agent": f"{used}\n\n\n{code}"}


def _model_fields(model: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    notes = []
    made: dict[str, Any] = {"model": model}
    made["response_format"] = _response_schema(config.get("response_format"))
    if config.get("tools") or config.get("functions"):
        raise UnfitError("its model may call tools; list them under tools of agent.yaml, with what they do")
    used = {"response_format"} if made["response_format"] else set()
    unused = sorted(set(config) - _UNUSED_SETTINGS - used)
    if unused:
        notes.append(f"not used: {', '.join(unused)}")
    return {**made, "notes": tuple(notes)}


def _response_schema(response_format: Any) -> Any:
    if not isinstance(response_format, dict) or response_format.get("type") != "json_schema":
        return None
    named = response_format.get("json_schema")
    schema = named.get("schema") if isinstance(named, dict) else response_format.get("schema")
    return schema if isinstance(schema, dict) else None


def with_prompt_settings(provider: Provider, prompts: Sequence[Prompt]) -> tuple[Provider, Sequence[Row]]:
    """Return the provider with the answer schema that its prompts share, and a row for each prompt with unused
    settings.
    """
    schemas = [_response_schema(prompt.config.get("response_format")) for prompt in prompts]
    shared = provider.model is not None and schemas[0] is not None and all(each == schemas[0] for each in schemas)
    rows = []
    for prompt in prompts:
        unused = sorted(key for key in prompt.config if not (shared and key == "response_format"))
        if unused:
            note = f"not used: {', '.join(unused)}; a suite has the same settings for all prompts"
            place = prompt.place
            what, way = "config of a prompt", "set by hand"
            rows.append(Row(place.file, place.line, what, way, Outcome.SIMILAR, note, asserts=False))
    return (replace(provider, response_format=schemas[0]) if shared else provider), rows


def _service_fields(url: str, config: Mapping[str, Any]) -> dict[str, Any]:
    if str(config.get("method") or "POST").upper() != "POST":
        raise UnfitError("services are called with POST only; write an agent in Python that calls this one")
    body = config.get("body")
    if not isinstance(body, dict | list):
        raise UnfitError("its body is not JSON; write an agent in Python that calls it")
    if config.get("transformRequest") or config.get("requestTransform"):
        raise UnfitError("its request is built by code; write an agent in Python that calls it")
    path = str(config.get("transformResponse") or config.get("responseParser") or "")
    found = re.fullmatch(r"(?:json|data)((?:\.\w+|\[\d+\]|\[['\"]\w+['\"]\])+)", path)
    if found is None:
        raise UnfitError("the answer is extracted by code; write the JSONPath of target.response.text")
    headers = config.get("headers") or {}
    if not isinstance(headers, dict):
        raise UnfitError("its headers are not a mapping")
    target = {
        "type": "http",
        "url": _with_variables(url),
        "headers": {key: _with_variables(str(value)) for key, value in headers.items()},
        "request": _request_template(body),
        "response": {"text": f"${found[1]}"},
    }
    if any(key.lower() == "content-type" for key in target["headers"]):
        target["headers"] = {key: value for key, value in target["headers"].items() if key.lower() != "content-type"}
    return {"target": target}


def _request_template(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _request_template(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_request_template(item) for item in value]
    if not isinstance(value, str):
        return value
    text = re.sub(r"\{\{\s*prompt\s*\}\}", "{{ turn.input }}", _with_variables(value))
    return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda found: _case_variable(found[1]), text)


def _case_variable(name: str) -> str:
    return f"{{{{ turn.turn_config.vars.{name} }}}}"


def _with_variables(text: str) -> str:
    return re.sub(r"\{\{\s*env\.(\w+)\s*\}\}", lambda found: variable(found[1]), text)
