"""Who answers: the `target` of the policy file and of `--target`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Discriminator, Field, PlainValidator, Tag, WithJsonSchema
from pydantic_core import PydanticCustomError

from holodeck_action.suite.base import FormatModel, NonBlank, SecretText
from holodeck_action.suite.cases import FreeMapping

_WORD = r"[^\W\d]\w*"
_TEXT_FORMS = rf"^(recorded|command):\s*\S|^python:\s*{_WORD}(\.{_WORD})*:{_WORD}\s*$|^http:\s*https?://[^\s/?#]|^https?://[^\s/?#]"
OWN_MODEL = "model"
"""What `--target` says for the suite's own model, which is the target where the policy file names none."""
FORMS = "recorded:PATH, python:MODULE:CALLABLE, command:CMD or http:URL"


class ModelTarget(FormatModel):
    """Answers from the suite's own model, the target where none is given.

    `model` is `provider/name`; `digest` is of all that the suite tells the model besides its cases.
    """

    kind: ClassVar[Literal["model"]] = "model"
    model: str
    digest: str


class RecordedTarget(FormatModel):
    """Answers from a transcript file; `path` as written."""

    kind: ClassVar[Literal["recorded"]] = "recorded"
    path: str


class PythonTarget(FormatModel):
    """Answers from a Python callable, `module.path:callable`."""

    kind: ClassVar[Literal["python"]] = "python"
    reference: str


class CommandTarget(FormatModel):
    """Answers from a process that speaks JSON lines."""

    kind: ClassVar[Literal["command"]] = "command"
    command: str


def _http_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid or any(character.isspace() for character in value):
        raise PydanticCustomError("target_url", "must be an http or https URL with a host")
    return value


def _templates(value: Any) -> Any:
    # Only suites with an http target pay for the import.
    from jinja2 import TemplateSyntaxError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment()

    def check(item: Any) -> None:
        if isinstance(item, str):
            try:
                environment.parse(item)
            except TemplateSyntaxError as error:
                raise PydanticCustomError(
                    "target_template", "the template does not parse: {reason}", {"reason": error.message or "syntax"}
                ) from None
        elif isinstance(item, dict):
            for child in item.values():
                check(child)
        elif isinstance(item, list):
            for child in item:
                check(child)

    check(value)
    return value


def _json_path(value: str) -> str:
    from jsonpath import JSONPathEnvironment
    from jsonpath.exceptions import JSONPathError

    try:
        JSONPathEnvironment().compile(value)
    except JSONPathError as error:
        raise PydanticCustomError(
            "target_path", "the JSONPath does not parse: {reason}", {"reason": str(error).splitlines()[0]}
        ) from None
    return value


JSONPath = Annotated[NonBlank, AfterValidator(_json_path)]


class ResponseMapping(FormatModel):
    """Where the parts of the answer stand in the response body, as JSONPath."""

    text: JSONPath
    tool_invocations: JSONPath | None = None
    retrieval_context: JSONPath | None = None
    retrieved_chunks: JSONPath | None = None


class HttpTarget(FormatModel):
    """Answers from a service, one POST per turn."""

    kind: ClassVar[Literal["http"]] = "http"
    type: Literal["http"] = "http"
    url: Annotated[NonBlank, AfterValidator(_http_url)]
    headers: dict[str, SecretText] = Field(default_factory=dict)
    request: Annotated[FreeMapping, AfterValidator(_templates)] | None = None
    """The JSON body; text values are Jinja templates over turn, case, session and history."""
    response: ResponseMapping | None = None


WrittenTarget = RecordedTarget | PythonTarget | CommandTarget | HttpTarget
AnyTarget = ModelTarget | WrittenTarget


def parse_target(value: str) -> WrittenTarget:
    """Read the short form of a target.

    Args:
        value: `recorded:PATH`, `python:MODULE:CALLABLE`, `command:CMD`, `http:URL`, or a plain http(s) URL.

    Raises:
        PydanticCustomError: a ValueError whose text is one sentence naming the allowed forms.
    """
    kind, _, rest = value.partition(":")
    rest = rest.strip()
    if kind == "recorded" and rest:
        return RecordedTarget(path=rest)
    if kind == "command" and rest:
        return CommandTarget(command=rest)
    if kind == "python" and rest:
        module, _, name = rest.rpartition(":")
        if not all(part.isidentifier() for part in (*module.split("."), name)):
            raise PydanticCustomError(
                "target_python", "must be python:MODULE:CALLABLE, such as python:app.agent:answer"
            )
        return PythonTarget(reference=rest)
    if kind in ("http", "https") and rest:
        return HttpTarget(url=_http_url(value if rest.startswith("//") else rest))
    raise PydanticCustomError("target_form", "must be {forms}", {"forms": FORMS})


def _from_text(value: Any) -> WrittenTarget:
    if isinstance(value, RecordedTarget | PythonTarget | CommandTarget | HttpTarget):
        return value
    if not isinstance(value, str):
        raise PydanticCustomError("target_form", "must be {forms}, or a mapping of type http", {"forms": FORMS})
    return parse_target(value)


Target = Annotated[
    Annotated[
        WrittenTarget,
        PlainValidator(_from_text),
        WithJsonSchema({"type": "string", "pattern": _TEXT_FORMS}),
        Tag("text"),
    ]
    | Annotated[HttpTarget, Tag("mapping")],
    Discriminator(lambda value: "mapping" if isinstance(value, dict) else "text"),
]
