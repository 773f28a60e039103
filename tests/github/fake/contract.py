"""GitHub's own description of its API (`tests/github/data`) as the judge of requests and of the fake's answers."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

SLICE = Path(__file__).parents[1] / "data" / "github-openapi-slice.json.gz"
_SERVER = "https://api.github.com"
_SHOWN = 300
_VARYING = re.compile(r"\b[0-9a-f]{7,}\b|[0-9]+")


@dataclass(frozen=True, slots=True)
class Operation:
    """A described call and the variables of its path."""

    method: str
    template: str
    variables: Mapping[str, str]


@cache
def description() -> dict[str, Any]:
    """Return the description."""
    document: dict[str, Any] = json.loads(gzip.decompress(SLICE.read_bytes()))
    return document


@cache
def contract() -> Contract:
    """Return the judge; it is made once in a process."""
    return Contract(description())


class Contract:
    """Judges requests and answers by an OpenAPI description."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        # Half a second that only tests with a hub pay.
        from jsonschema_path import SchemaPath
        from openapi_core import V30RequestValidator, V30ResponseValidator

        spec = _with_null(spec)
        path = SchemaPath.from_dict(spec)
        self._spec = spec
        # GitHub ignores a property that it does not know; whoever sends one has misspelt another.
        self._requests = V30RequestValidator(path, forbid_unspecified_additional_properties=True)
        self._answers = V30ResponseValidator(path)
        self._right: set[bytes] = set()
        self._templates = [(template, _pattern(template)) for template in spec["paths"]]

    def find(self, method: str, path: str) -> Operation | None:
        """Return the described call that a request is; None when there is none."""
        for template, pattern in self._templates:
            match = pattern.fullmatch(path)
            if match and method.lower() in self._spec["paths"][template]:
                return Operation(method, template, {name: unquote(text) for name, text in match.groupdict().items()})
        return None

    def request_problems(
        self, operation: Operation, path: str, query: Mapping[str, Sequence[str]], body: bytes, content_type: str
    ) -> list[str]:
        """Return what is wrong with a request; what was right before is not looked at again."""
        from openapi_core.testing import MockRequest

        digest = _digest(operation, path, query, content_type, body.decode(errors="surrogateescape"))
        if digest in self._right:
            return []
        arguments: Any = {name: list(values) for name, values in query.items()}
        request = MockRequest(
            _SERVER, operation.method, path, args=arguments, data=body, content_type=content_type.lower()
        )
        known = set(self._parameters(operation, "query"))
        unknown = [f"query parameter {name!r} is not described" for name in query if name not in known]
        problems = [*unknown, *(text for error in self._requests.iter_errors(request) for text in _sentences(error))]
        if not problems:
            self._right.add(digest)
        return problems

    def answer_problems(self, operation: Operation, path: str, status: int, body: Any) -> list[str]:
        """Return what is wrong with an answer; what was right before is not looked at again."""
        from openapi_core.testing import MockRequest, MockResponse

        if (
            status == 204
            or str(status) not in self._spec["paths"][operation.template][operation.method.lower()]["responses"]
        ):
            return []
        judged = _as_described(body)
        digest = _digest(operation, status, judged)
        parts = {digest: judged}
        if isinstance(judged, list):
            parts = {_digest(operation, status, part): part for part in judged}
            judged = [part for key, part in parts.items() if key not in self._right]
        if parts.keys() <= self._right:
            return []
        response = MockResponse(json.dumps(judged).encode(), status)
        request = MockRequest(_SERVER, operation.method, path)
        problems = [text for error in self._answers.iter_errors(request, response) for text in _sentences(error)]
        if not problems:
            self._right.update(parts)
        return problems

    def _parameters(self, operation: Operation, place: str) -> Iterator[str]:
        item = self._spec["paths"][operation.template]
        for parameter in [*item.get("parameters", []), *item[operation.method.lower()].get("parameters", [])]:
            if "$ref" in parameter:
                parameter = self._spec["components"]["parameters"][parameter["$ref"].rsplit("/", 1)[1]]
            if parameter["in"] == place:
                yield parameter["name"]


def example(name: str) -> Any:
    """Return an example of the description: an answer of GitHub's real shape."""
    return deepcopy(description()["components"]["examples"][name]["value"])


def _with_null(node: Any) -> Any:
    """Let nullable enumerations have null: GitHub leaves it out of the list, OpenAPI 3.0.3 wants it there."""
    if isinstance(node, list):
        return [_with_null(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {name: _with_null(item) for name, item in node.items()}
    if node.get("nullable") is True and isinstance(node.get("enum"), list) and None not in node["enum"]:
        node["enum"] = [*node["enum"], None]
    return node


def _pattern(template: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", template)
    return re.compile(
        "".join(f"(?P<{part}>[^/]+)" if place % 2 else re.escape(part) for place, part in enumerate(parts))
    )


def _as_described(body: Any) -> Any:
    """Leave out what GitHub answers although its description does not know it: nulls of what has been deleted."""
    if isinstance(body, list):
        return [_as_described(item) for item in body]
    if not isinstance(body, dict):
        return body
    body = dict(body)
    head = body.get("head")
    if isinstance(head, dict) and "repo" in head and head["repo"] is None:
        body["head"] = {**head, "repo": body["base"]["repo"]}
    if "diff_hunk" in body:
        body = {name: value for name, value in body.items() if name not in ("line", "position") or value is not None}
    return body


def _digest(operation: Operation, *parts: Any) -> bytes:
    """Tell what is judged apart from all else; ids and hashes differ in every run, and no number is out of bounds."""
    text = json.dumps([operation.method, operation.template, *parts], sort_keys=True)
    return hashlib.sha256(_VARYING.sub(lambda found: "0" * len(found[0]), text).encode()).digest()


def _short(text: str) -> str:
    """Leave out the middle: a message begins with the value and ends with what is wrong with it."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]} … {text[-_SHOWN // 2 :]}"


def _sentences(error: BaseException) -> list[str]:
    """Return the schema errors inside an error, or what it says itself."""
    inner: BaseException | None = error
    while inner is not None and not getattr(inner, "schema_errors", None):
        inner = inner.__cause__
    if inner is None:
        said = error.__cause__ or error
        return [_short(str(said)) or type(said).__name__]
    found = list(inner.schema_errors)  # type: ignore[attr-defined]
    return [f"{'.'.join(map(str, item.absolute_path)) or 'body'}: {_short(item.message)}" for item in found[:3]]
