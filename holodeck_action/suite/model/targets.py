"""The target, which answers the cases: `target` of the policy file, and `--target`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, ClassVar, Literal, TypeVar, Union
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, GetCoreSchemaHandler, Tag, WithJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import no_info_plain_validator_function

from holodeck_action.seam import registry
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.model.base import (
    ExtensionType,
    FormatModel,
    LazySection,
    NonBlank,
    SecretText,
    text_or_mapping,
)
from holodeck_action.suite.model.cases import FreeMapping
from holodeck_action.text.lazy_patterns import lazy_pattern

_WORD = r"[^\W\d]\w*"
_FRAMEWORKS = [framework.name for framework in registry.frameworks().values() if framework.adapter]
_IMPORTED_KINDS = ("python", *_FRAMEWORKS)
_ONE_IMPORTED_KIND = "|".join(_IMPORTED_KINDS)
_TEXT_FORMS = (
    rf"^(recorded|command):\s*\S|^({_ONE_IMPORTED_KIND}):\s*{_WORD}(\.{_WORD})*:{_WORD}\s*$"
    r"|^http:\s*https?://[^\s/?#]|^https?://[^\s/?#]"
)
_FRAMEWORK_AGENT = lazy_pattern(rf"[a-z][\w-]*:{_WORD}(\.{_WORD})*:{_WORD}")
"""Matches an agent of a framework, whether or not the framework is known."""
OWN_MODEL = "model"
"""The value of `--target` for the suite's own model, which is the target if the policy file names none."""
_FRAMEWORK_FORMS = f" {'|'.join(_FRAMEWORKS)}:MODULE:AGENT," if _FRAMEWORKS else ""
FORMS = f"recorded:PATH, python:MODULE:CALLABLE,{_FRAMEWORK_FORMS} command:CMD or http:URL"


class ModelTarget(FormatModel):
    """The default target: answers from the suite's own model.

    `model` is `provider/name`; `digest` is a digest of everything that the suite sends to the model except the cases.
    """

    kind: ClassVar[Literal["model"]] = "model"
    model: str
    digest: str


class RecordedTarget(FormatModel):
    """`target: recorded:PATH`: answers from a transcript."""

    kind: ClassVar[Literal["recorded"]] = "recorded"
    path: str
    """The transcript, relative to agent.yaml. Example: `answers.jsonl`."""


class ConversationsTarget(RecordedTarget):
    """`--target NAME:PATH` of an extension: answers from recorded conversations."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: str
    """Prefix of the target."""
    digest: str
    """SHA-256 of the files, in hexadecimal."""
    transcript: Callable[[Sequence[Any]], BinaryIO] = Field(exclude=True)
    """Opens the transcript with the answers to the suite's cases (`suite.values.Case`)."""


class PythonTarget(FormatModel):
    """`target: python:MODULE:CALLABLE`: answers from a Python callable, or from an agent of a framework."""

    kind: ClassVar[Literal["python"]] = "python"
    reference: str
    """The module and the callable. Example: `my_agent:answer`."""
    framework: str | None = None
    """The framework of the agent; null if the reference names a callable. Example: `langgraph`."""

    @property
    def worker_reference(self) -> str:
        """The reference that a worker process imports."""
        return self.reference if self.framework is None else f"{self.framework}:{self.reference}"


class CommandTarget(FormatModel):
    """`target: command:CMD`: answers from a process that reads and writes JSON lines."""

    kind: ClassVar[Literal["command"]] = "command"
    command: str
    """The program and its arguments. Example: `node agent.js`."""


def _check_http_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid or any(character.isspace() for character in value):
        raise PydanticCustomError("target_url", "must be an http or https URL with a host")
    return value


def _check_templates(value: Any) -> Any:
    # Imported only for suites with an http target.
    from jinja2 import TemplateSyntaxError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment()

    def check(value: Any) -> None:
        if isinstance(value, str):
            try:
                environment.parse(value)
            except TemplateSyntaxError as error:
                raise PydanticCustomError(
                    "target_template", "the template does not parse: {reason}", {"reason": error.message or "syntax"}
                ) from None
        elif isinstance(value, dict):
            for child in value.values():
                check(child)
        elif isinstance(value, list):
            for child in value:
                check(child)

    check(value)
    return value


def _check_json_path(value: str) -> str:
    from jsonpath import JSONPathEnvironment
    from jsonpath.exceptions import JSONPathError

    # Otherwise a path that begins with a word of the grammar, such as `in`, would not parse.
    value = f"$.{value}" if value[:1].isidentifier() else value
    try:
        JSONPathEnvironment().compile(value)
    except JSONPathError as error:
        raise PydanticCustomError(
            "target_path", "the JSONPath does not parse: {reason}", {"reason": str(error).splitlines()[0]}
        ) from None
    return value


JSONPath = Annotated[NonBlank, AfterValidator(_check_json_path)]
Paths = TypeVar("Paths", bound=FormatModel)
PathOr = Annotated[Annotated[JSONPath, Tag("text")] | Annotated[Paths, Tag("mapping")], Discriminator(text_or_mapping)]
"""The JSONPath of a part of the reply, or a mapping of the JSONPaths of its keys."""


class CallPaths(FormatModel):
    """`tool_invocations` in `target.response`: where the calls are, and JSONPaths within each of them."""

    each: JSONPath
    """The calls. Example: `$.steps`."""
    name: JSONPath
    """The tool's name. Example: `tool`."""
    args: JSONPath | None = None
    """The arguments: an object, or its JSON text. Example: `input`."""
    result: JSONPath | None = None
    """The result. Example: `output`."""
    bytes: JSONPath | None = None
    """Size of the result in bytes. Example: `size`."""
    duration_ms: JSONPath | None = None
    """Duration of the call in milliseconds. Example: `took_ms`."""
    error: JSONPath | None = None
    """The error message of a call that failed. Example: `error.text`."""


class ChunkPaths(FormatModel):
    """`retrieved_chunks` in `target.response`: where the chunks are, and JSONPaths within each of them."""

    each: JSONPath
    """The chunks, in rank order. Example: `$.sources`."""
    id: JSONPath
    """The chunk's id. Example: `url`."""
    text: JSONPath | None = None
    """The text. Example: `body`."""
    score: JSONPath | None = None
    """The retriever's score. Example: `rank.score`."""


class UsagePaths(FormatModel):
    """`usage` in `target.response`: JSONPaths of the counts."""

    each: JSONPath | None = None
    """One object per model, within which the other paths apply; the whole body when absent. Example: `$.models`."""
    model: JSONPath | None = None
    """The model. Example: `$.llm`."""
    prompt_tokens: JSONPath | None = None
    """Tokens of the prompts. Example: `$.tokens.in`."""
    completion_tokens: JSONPath | None = None
    """Tokens of the answers. Example: `$.tokens.out`."""
    cached_tokens: JSONPath | None = None
    """Prompt tokens that were read from a cache. Example: `$.tokens.cached`."""
    reasoning_tokens: JSONPath | None = None
    """Answer tokens that were used for reasoning. Example: `$.tokens.thought`."""
    cost_usd: JSONPath | None = None
    """The cost in US dollars. Example: `$.price`."""


class ResponseMapping(FormatModel):
    """`target.response`: JSONPaths of the parts of the reply in the body of the response."""

    text: JSONPath
    """The answer; exactly one match. Example: `$.reply`."""
    delta: JSONPath | None = None
    """The next piece of the answer in an event of a stream. Example: `$.choices[0].delta.content`."""
    tool_invocations: PathOr[CallPaths] | None = None
    """The tool calls. Example: `{each: $.steps, name: tool, args: input, result: output}`."""
    retrieval_context: JSONPath | None = None
    """The retrieved texts. Example: `$.chunks[*].text`."""
    retrieved_chunks: PathOr[ChunkPaths] | None = None
    """The retrieved chunks. Example: `{each: $.sources, id: url, text: body}`."""
    usage: PathOr[UsagePaths] | None = None
    """The tokens that the models used, and their cost. Example: `{prompt_tokens: $.tokens.in, completion_tokens:
    $.tokens.out}`."""
    cost_usd: JSONPath | None = None
    """What the turn cost, in US dollars. Example: `$.cost`."""
    model: JSONPath | None = None
    """The model that answered. Example: `$.model`."""
    messages: JSONPath | None = None
    """What the turn adds to the conversation. Example: `$.new_messages`."""
    metadata: JSONPath | None = None
    """Further facts, kept in the record. Example: `$.trace`."""
    error: JSONPath | None = None
    """Why there is no answer; if it matches, `text` is ignored. Example: `$.error`."""
    finish_reason: JSONPath | None = None
    """Why the model stopped; `length` and other words for a token limit are the error `cut_off`. Example:
    `$.choices[0].finish_reason`."""
    duration_ms: JSONPath | None = None
    """How long the agent worked on the answer, in milliseconds. Example: `$.took_ms`."""
    first_token_ms: JSONPath | None = None
    """Milliseconds until the first token of the answer. Example: `$.first_token_ms`."""


class HttpTarget(FormatModel):
    """`target: http:URL`, or a mapping: answers from a service, one POST per turn."""

    kind: ClassVar[Literal["http"]] = "http"
    type: Literal["http"] = "http"
    """The kind of target."""
    url: Annotated[NonBlank, AfterValidator(_check_http_url)]
    """The address. Example: `https://agent.example/chat`."""
    headers: dict[str, SecretText] = Field(default_factory=dict)
    """Sent with every request. Their values are secrets. Example: `{Authorization: "Bearer ${AGENT_TOKEN}"}`."""
    request: Annotated[FreeMapping, AfterValidator(_check_templates)] | None = None
    """The JSON body. Its texts are Jinja templates over `turn`, `case`, `session` and `history`. Example: `{message:
    "{{ turn.input }}"}`."""
    response: ResponseMapping | None = None
    """Where the parts of the reply are in the body of the response."""


class CallableTarget(FormatModel):
    """Answers from a callable of the program that calls `holodeck_action.evaluate`; no file can name one."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    kind: ClassVar[Literal["callable"]] = "callable"
    called: Callable[..., Any] = Field(exclude=True)
    name: str


class AddedTarget(FormatModel):
    """Base of the targets that extensions add; the policy file writes them as a mapping."""

    kind: ClassVar[str]
    """The key by which the mapping is recognized."""
    recorded: ClassVar[bool] = False
    """Whether `--record` stores the answers, and `--replay` repeats them."""

    @property
    def shown(self) -> str:
        """The target as the record shows it after its kind, without secrets."""
        raise NotImplementedError

    def digests(self, checkout: Checkout) -> dict[str, str]:
        """Return digests of the files of the checkout that trials depend on, by a description of the file.

        Raises:
            OSError: a file cannot be read.
        """
        return {}


WrittenTarget = RecordedTarget | PythonTarget | CommandTarget | HttpTarget | AddedTarget
ExternalTarget = WrittenTarget | CallableTarget
"""A target other than the suite's own model."""
AnyTarget = ModelTarget | ExternalTarget


def parse_target(value: str) -> WrittenTarget:
    """Parse the short form of a target.

    Args:
        value: `recorded:PATH`, `python:MODULE:CALLABLE`, a framework with `:MODULE:AGENT`, `command:CMD`,
            `http:URL`, or a plain http(s) URL.

    Raises:
        PydanticCustomError: the value has none of these forms; the message is one sentence with the allowed forms.
    """
    kind, _, rest = value.partition(":")
    rest = rest.strip()
    if kind in registry.conversations():
        # A file must not be able to replace the cases of its suite, or their answers.
        message = "{kind}: takes what happened outside of the suite, so only --target of `run` can name it"
        raise PydanticCustomError("target_form", message, {"kind": kind})
    if kind == "recorded" and rest:
        return RecordedTarget(path=rest)
    if kind == "command" and rest:
        return CommandTarget(command=rest)
    if kind in _IMPORTED_KINDS and rest:
        module, _, name = rest.rpartition(":")
        if not all(part.isidentifier() for part in (*module.split("."), name)):
            raise PydanticCustomError(
                "target_python", "must be {kind}:MODULE:CALLABLE, such as {kind}:app.agent:answer", {"kind": kind}
            )
        return PythonTarget(reference=rest, framework=None if kind == "python" else kind)
    if kind in ("http", "https") and rest:
        return HttpTarget(url=_check_http_url(value if rest.startswith("//") else rest))
    if _FRAMEWORK_AGENT.fullmatch(value.strip()):
        said = f"{kind} {registry.unknown_phrase()}"
        raise PydanticCustomError("target_form", "must be {forms}: {said}", {"forms": FORMS, "said": said})
    raise PydanticCustomError("target_form", "must be {forms}", {"forms": FORMS})


def _parse_short_form(value: Any) -> WrittenTarget:
    if isinstance(value, WrittenTarget):
        return value
    if not isinstance(value, str):
        raise PydanticCustomError("target_form", "must be {forms}, or a mapping of type http", {"forms": FORMS})
    return parse_target(value)


class _ShortForm:
    """Annotation of a target's short form: pydantic builds no validators for the targets that it can name."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_plain_validator_function(_parse_short_form)


def _added_key(value: Any) -> str:
    return next((key for key in registry.targets() if key in value), "mapping")


if TYPE_CHECKING:
    Target = WrittenTarget
else:
    _TEXT = Annotated[
        WrittenTarget, _ShortForm(), WithJsonSchema({"type": "string", "pattern": _TEXT_FORMS}), Tag("text")
    ]
    _ADDED = tuple(
        Annotated[LazySection[ExtensionType(partial(getattr, added, "settings"), Any)], Tag(added.key)]
        for added in registry.targets().values()
    )
    Target = Annotated[
        Union[(_TEXT, Annotated[LazySection[HttpTarget], Tag("mapping")], *_ADDED)],
        Discriminator(lambda value: _added_key(value) if isinstance(value, dict) else "text"),
    ]
