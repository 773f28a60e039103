"""Finds the routes of FastAPI services that answer a question, in the Python files of a repository."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from holodeck_action.extensions.start.python_agents import located, parse_module, python_files

_PORT = 8000
"""The port of uvicorn, if none is given."""
_QUESTIONS = ("message", "question", "input", "text", "prompt", "query", "content")
_ANSWERS = ("answer", "response", "reply", "text", "output", "message", "content", "result")


class Service(Struct, frozen=True, order=True):
    """A route that takes a question.

    Attributes:
        depth: number of folders between the searched folder and the file.
        place: FILE:LINE of the route's function.
        application: MODULE:NAME of the application, or of the router that has the route.
        path: the path of the route.
        request: key of the request's body that takes the question; empty if it is unknown.
        response: key of the answer's body that has the text; empty if it is unknown.
    """

    depth: int
    place: str
    application: str
    path: str
    request: str = ""
    response: str = ""

    @property
    def url(self) -> str:
        """The URL at which uvicorn serves the route on this machine."""
        return f"http://127.0.0.1:{_PORT}{self.path}"

    @property
    def target(self) -> dict[str, Any]:
        """The target, as in the policy file."""
        target: dict[str, Any] = {"type": "http", "url": self.url}
        if self.request == "messages":
            target["request"] = {"messages": "{{ history + [{'role': 'user', 'content': turn.input}] }}"}
        elif self.request:
            target["request"] = {self.request: "{{ turn.input }}"}
        if self.response:
            target["response"] = {"text": f"$.{self.response}"}
        return target


def find_services(folder: Path) -> list[Service]:
    """Return the routes for POST requests without variables in their path, sorted by depth."""
    found = []
    for path in python_files(folder):
        tree = parse_module(path, ["fastapi"])
        for statement in () if tree is None else tree.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                for owner, route, model in _routes(statement):
                    assert tree is not None
                    classes = {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)}
                    agent = located(folder, path, statement, owner)
                    found.append(
                        Service(
                            agent.depth,
                            agent.place,
                            agent.reference,
                            route,
                            _first(_QUESTIONS, _request_keys(statement, classes)),
                            _first(_ANSWERS, _answer_keys(statement, model, classes)),
                        )
                    )
    return sorted(found)


def _routes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, str, ast.expr | None]]:
    """Yield the name of the application, the path, and the model of the answer, for each decorator such as
    `@app.post("/chat")`."""
    for decorator in function.decorator_list:
        match decorator:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=owner), attr="post"), args=[ast.Constant(value=str(path)), *_]
            ) if "{" not in path:
                model = next((word.value for word in decorator.keywords if word.arg == "response_model"), None)
                yield owner, path, model or function.returns


def _request_keys(
    function: ast.FunctionDef | ast.AsyncFunctionDef, classes: Mapping[str, ast.ClassDef]
) -> Sequence[str]:
    """Return the keys of the body that a route takes: those of its first parameter that is a class of the file."""
    for parameter in function.args.args:
        match parameter.annotation:
            case ast.Name(id=name) if name in classes:
                return _fields(classes[name])
    return ()


def _answer_keys(
    function: ast.FunctionDef | ast.AsyncFunctionDef, model: ast.expr | None, classes: Mapping[str, ast.ClassDef]
) -> Sequence[str]:
    """Return the keys of the body that a route returns: those of its class, or of a dict that it returns."""
    match model:
        case ast.Name(id=name) if name in classes:
            return _fields(classes[name])
    for node in ast.walk(function):
        match node:
            case ast.Return(value=ast.Dict(keys=keys)):
                return [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    return ()


def _fields(made: ast.ClassDef) -> list[str]:
    return [
        statement.target.id
        for statement in made.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    ]


def _first(preferred: Sequence[str], keys: Sequence[str]) -> str:
    """Return the preferred key that a body has, else its only key; empty if neither exists."""
    if "messages" in keys and preferred is _QUESTIONS:
        return "messages"
    return next((key for key in preferred if key in keys), keys[0] if len(keys) == 1 else "")
