"""The part of GitHub's GraphQL API that tells whose a comment is and whether it is hidden."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.github.fake.permissions import COMMENT, NOT_ACCESSIBLE, Token
from tests.github.fake.records import Comment, Issue, Note, Review
from tests.github.fake.repository import Repository

MOST_NODES = 100
_SCHEMA = """
interface Node { id: ID! }
interface Actor { login: String! }
interface Comment { id: ID! author: Actor body: String! viewerDidAuthor: Boolean! createdViaEmail: Boolean! }
interface Minimizable { isMinimized: Boolean! minimizedReason: String viewerCanMinimize: Boolean! }
type User implements Node & Actor { id: ID! login: String! }
type Bot implements Node & Actor { id: ID! login: String! }
type IssueComment implements Node & Comment & Minimizable {
  id: ID! databaseId: Int author: Actor body: String! viewerDidAuthor: Boolean! createdViaEmail: Boolean!
  isMinimized: Boolean! minimizedReason: String viewerCanMinimize: Boolean!
}
type PullRequestReview implements Node & Comment & Minimizable {
  id: ID! databaseId: Int author: Actor body: String! viewerDidAuthor: Boolean! createdViaEmail: Boolean!
  isMinimized: Boolean! minimizedReason: String viewerCanMinimize: Boolean!
}
type PullRequestReviewComment implements Node & Comment & Minimizable {
  id: ID! databaseId: Int author: Actor body: String! viewerDidAuthor: Boolean! createdViaEmail: Boolean!
  isMinimized: Boolean! minimizedReason: String viewerCanMinimize: Boolean!
}
type Issue implements Node & Comment {
  id: ID! number: Int! author: Actor body: String! viewerDidAuthor: Boolean! createdViaEmail: Boolean!
}
type Query { viewer: User! node(id: ID!): Node nodes(ids: [ID!]!): [Node]! }
"""


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to a query and what is wrong with the query."""

    body: dict[str, Any]
    violations: tuple[str, ...]


def execute(body: Any, token: Token, repositories: Iterable[Repository]) -> Result:
    """Answer a query.

    Args:
        body: JSON of the request.
        token: who asks.
        repositories: all there are.
    """
    from graphql import graphql_sync

    if not isinstance(body, Mapping) or not isinstance(body.get("query"), str):
        text = "A query attribute must be specified and must be a string."
        return Result({"errors": [{"message": text}]}, (text,))
    notes = {
        note.node_id: note
        for repository in repositories
        for note in (*repository.notes(), *repository.all_issues.values())
    }
    answer = graphql_sync(
        _schema(), body["query"], root_value=_Root(token, notes), variable_values=body.get("variables")
    )
    errors: list[dict[str, Any]] = []
    wrong: list[str] = []
    for error in answer.errors or ():
        kind = (error.extensions or {}).get("type")
        shape: dict[str, Any] = {"message": error.message}
        if kind:
            shape["type"] = kind
        if error.path:
            shape["path"] = error.path
        errors.append(shape)
        # That something is gone or not to be seen is no mistake of whoever asks.
        if kind not in ("NOT_FOUND", "FORBIDDEN"):
            wrong.append(error.message)
    content: dict[str, Any] = {} if answer.data is None and errors else {"data": answer.data}
    return Result(content | ({"errors": errors} if errors else {}), tuple(wrong))


@dataclass(frozen=True, slots=True)
class _Root:
    token: Token
    notes: Mapping[str, Note | Issue]

    def viewer(self, _info: Any) -> dict[str, Any]:
        return {"__typename": "User", "id": f"U_{self.token.login}", "login": self.token.login}

    def node(self, _info: Any, id: str) -> Any:
        return self._find(id)

    def nodes(self, _info: Any, ids: list[str]) -> list[Any]:
        from graphql import GraphQLError

        if len(ids) > MOST_NODES:
            text = f"You may not provide more than {MOST_NODES} node ids; you provided {len(ids)}."
            raise GraphQLError(text, extensions={"type": "ARGUMENT_LIMIT"})
        return [self._find(ident) for ident in ids]

    def _find(self, ident: str) -> Any:
        from graphql import GraphQLError

        note = self.notes.get(ident)
        if note is None:
            # A value that is an error becomes null with the error beside it.
            text = f"Could not resolve to a node with the global id of '{ident}'"
            return GraphQLError(text, extensions={"type": "NOT_FOUND"})
        needed = COMMENT if isinstance(note, Comment) else COMMENT[:1] if isinstance(note, Issue) else COMMENT[1:]
        if not self.token.can("read", *needed):
            return GraphQLError(NOT_ACCESSIBLE[self.token.kind], extensions={"type": "FORBIDDEN"})
        return self._shape(note)

    def _shape(self, note: Note | Issue) -> dict[str, Any]:
        names = {Comment: "IssueComment", Review: "PullRequestReview", Issue: "Issue"}
        bot = note.author_type == "Bot"
        # GraphQL names a bot without the end that REST gives its login.
        author = {"__typename": "Bot" if bot else "User", "login": note.author.removesuffix("[bot]")}
        return {
            "__typename": names.get(type(note), "PullRequestReviewComment"),
            "id": note.node_id,
            "databaseId": note.id,
            "author": author | {"id": f"{'BOT' if bot else 'U'}_{note.author}"},
            "body": note.body,
            "viewerDidAuthor": note.author == self.token.login,
            "createdViaEmail": False,
        } | (
            {"number": note.number}
            if isinstance(note, Issue)
            else {
                "isMinimized": note.minimized is not None,
                "minimizedReason": None if note.minimized is None else note.minimized.lower(),
                "viewerCanMinimize": self.token.can("write", *COMMENT),
            }
        )


@cache
def _schema() -> Any:
    from graphql import build_schema

    return build_schema(_SCHEMA)
