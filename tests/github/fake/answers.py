"""Requests and answers: pages, refusals, and the words GitHub uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from tests.github.fake.contract import Operation
from tests.github.fake.limits import Problem
from tests.github.fake.permissions import Token
from tests.github.fake.repository import Repository
from tests.github.fake.shapes import Shapes

DOCUMENTATION = "https://docs.github.com/rest"
PER_PAGE = 30
MOST_PER_PAGE = 100


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered; a body of None is none."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


class RefusedError(Exception):
    """GitHub does not do it; `problems` are what the request does wrong, none where it is right as such."""

    def __init__(self, answer: Answer, problems: Sequence[Problem] = ()) -> None:
        super().__init__(answer.body)
        self.answer = answer
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Request:
    """A request that is right by the description.

    Attributes:
        operation: what it is.
        api: where the client calls the API.
        path: its path there.
        query: the first value of each parameter.
        body: its JSON.
        token: who asks.
        repositories: all there are, by name.
    """

    operation: Operation
    api: str
    path: str
    query: Mapping[str, str]
    body: Mapping[str, Any]
    token: Token
    repositories: Mapping[str, Repository]

    @property
    def repository(self) -> Repository:
        """The repository of the path."""
        names = self.operation.variables
        found = self.repositories.get(f"{names['owner']}/{names['repo']}")
        if found is None:
            raise not_found()
        return found

    @property
    def shapes(self) -> Shapes:
        """What makes its JSON."""
        return Shapes(self.api, self.repository.name)

    def number(self, name: str) -> int:
        """Return a number of the path."""
        return int(self.operation.variables[name])


def message(status: int, text: str, **more: Any) -> Answer:
    """Return an answer that says what is wrong."""
    return Answer(status, {"message": text, "documentation_url": DOCUMENTATION, "status": str(status), **more})


def not_found() -> RefusedError:
    """Return what is answered where there is nothing."""
    return RefusedError(message(404, "Not Found"))


def invalid(resource: str, problems: Iterable[Problem]) -> None:
    """Refuse a request that has problems.

    Raises:
        RefusedError: there are any.
    """
    if found := list(problems):
        errors = [
            {"resource": resource, "code": "unprocessable", "field": item.field, "message": item.message}
            for item in found
        ]
        raise RefusedError(message(422, "Validation Failed", errors=errors), found)


def invalid_review(problems: Iterable[Problem]) -> None:
    """Refuse a review that has problems: GitHub says only what is wrong, not where.

    Raises:
        RefusedError: there are any.
    """
    if found := list(problems):
        errors = sorted({item.message for item in found})
        raise RefusedError(message(422, "Unprocessable Entity", errors=errors), found)


def page_of(request: Request, items: Sequence[Any], shape: Callable[[Any], Any]) -> tuple[list[Any], dict[str, str]]:
    """Return the page of a list that is asked for, and the header that leads to the others."""
    size = int(request.query.get("per_page", PER_PAGE))
    page = int(request.query.get("page", 1))
    last = max(1, -(-len(items) // size))
    backward = {"prev": page - 1, "first": 1} if page > 1 else {}
    forward = {"next": page + 1, "last": last} if page < last else {}
    header = ", ".join(
        f'<{request.api}{request.path}?{urlencode({**request.query, "page": number})}>; rel="{name}"'
        for name, number in (backward | forward).items()
    )
    shown = items[(page - 1) * size : page * size]
    return [shape(item) for item in shown], {"Link": header} if header else {}


def listed(request: Request, items: Sequence[Any], shape: Callable[[Any], Any]) -> Answer:
    """Answer with a page of a list."""
    return Answer(200, *page_of(request, items, shape))
