"""Repositories and what people other than us do in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from threading import RLock
from typing import Any

from tests.github.fake.actions import Actions
from tests.github.fake.diff import places
from tests.github.fake.git import GitStore
from tests.github.fake.permissions import Token
from tests.github.fake.records import CheckRun, Comment, Issue, Ledger, Note, Pull, Review, ReviewComment
from tests.github.fake.shapes import Shapes, number_of


class Repository:
    """A repository of the fake; what is returned is JSON as the API gives it.

    `git` and `actions` have its commits, and what its workflows left; `protected` are references that cannot be moved.
    """

    def __init__(self, name: str, *, issues: bool, api: str, ledger: Ledger, lock: RLock) -> None:
        self.name = name
        self.issues = issues
        self.ledger = ledger
        self.lock = lock
        self.pulls: dict[int, Pull] = {}
        self.all_issues: dict[int, Issue] = {}
        self.all_comments: dict[int, Comment] = {}
        self.all_reviews: dict[int, Review] = {}
        self.all_review_comments: dict[int, ReviewComment] = {}
        self.all_check_runs: dict[int, CheckRun] = {}
        self.default_branch = "main"
        self.protected: set[str] = set()
        self.git = GitStore(ledger)
        self.actions = Actions(ledger, number_of(name))
        self._shapes = Shapes(api, name)

    def add_pull(
        self,
        number: int,
        *,
        head_sha: str,
        head_repository: str | None = "",
        branch: str = "topic",
        base: str = "main",
        state: str = "open",
        merge_sha: str | None = None,
        files: Sequence[Mapping[str, Any]] = (),
        title: str = "Change the agent",
        author: str = "alice",
    ) -> None:
        """Open a pull request.

        Args:
            number: its number.
            head_sha: 40 hexadecimal digits.
            head_repository: `owner/name`; empty for this repository, None for a fork that was deleted.
            branch: of the head.
            base: the branch that it is to be merged into.
            state: `open` or `closed`.
            merge_sha: the test merge commit; None while GitHub is still making it.
            files: its diff: `filename`, `status` and perhaps `patch` of each file.
            title: its headline.
            author: login of the author.
        """
        head = self.name if head_repository == "" else head_repository
        with self.lock:
            now = self.ledger.now()
            ident = self.ledger.id()
            self.pulls[number] = Pull(
                ident, number, title, author, head, branch, base, state, merge_sha, tuple(files), [head_sha], now, now
            )

    def push(
        self,
        number: int,
        *,
        head_sha: str,
        files: Sequence[Mapping[str, Any]] | None = None,
        merge_sha: str | None = None,
    ) -> None:
        """Move the head of a pull request; without `files` its diff stays as it is.

        An inline comment whose line is not in the diff any more loses its line.
        """
        with self.lock:
            pull = self.pulls[number]
            pull.commits.append(head_sha)
            pull.merge_sha = merge_sha
            pull.updated_at = self.ledger.now()
            pull.files = pull.files if files is None else tuple(files)
            for comment in self.all_review_comments.values():
                if comment.number == number and comment.line is not None:
                    place = places(pull.patch(comment.path)).get((comment.side, comment.line))
                    comment.commit_id = head_sha if place else comment.commit_id
                    comment.position = place.position if place else None
                    comment.line = comment.line if place else None

    def close(self, number: int) -> None:
        """Close a pull request."""
        with self.lock:
            self.pulls[number].state = "closed"
            self.pulls[number].updated_at = self.ledger.now()

    def add_issue(self, *, author: str, body: str, author_type: str = "User", title: str = "Trouble") -> Issue:
        """Open an issue as somebody."""
        with self.lock:
            return self.write_issue(author, author_type, title, body)

    def issues_here(self) -> list[Issue]:
        """Return the issues, the oldest first."""
        with self.lock:
            return list(self.all_issues.values())

    def add_comment(self, number: int, *, author: str, body: str, author_type: str = "User") -> dict[str, Any]:
        """Comment as somebody."""
        with self.lock:
            return self._shapes.comment(self.write_comment(number, author, author_type, body))

    def add_review(
        self,
        number: int,
        *,
        author: str,
        body: str,
        author_type: str = "User",
        comments: Sequence[Mapping[str, Any]] = (),
    ) -> dict[str, Any]:
        """Review as somebody; `comments` have `path`, `line` and `body`."""
        token = Token(author, "installation" if author_type == "Bot" else "classic")
        with self.lock:
            content = {"event": "COMMENT", "body": body, "comments": comments}
            return self._shapes.review(self.write_review(number, token, content))

    def minimize(self, node_id: str, reason: str = "OUTDATED") -> None:
        """Hide a comment, a review or an inline comment.

        Raises:
            KeyError: there is none of that id.
        """
        with self.lock:
            next(note for note in self.notes() if note.node_id == node_id).minimized = reason

    def delete_comment(self, comment_id: int) -> None:
        """Delete a comment."""
        with self.lock:
            del self.all_comments[comment_id]

    def comments(self, number: int) -> list[dict[str, Any]]:
        """Return the comments of a pull request, the oldest first."""
        with self.lock:
            return [self._shapes.comment(item) for item in of_pull(self.all_comments, number)]

    def reviews(self, number: int) -> list[dict[str, Any]]:
        """Return the reviews of a pull request, the oldest first."""
        with self.lock:
            return [self._shapes.review(item) for item in of_pull(self.all_reviews, number)]

    def review_comments(self, number: int) -> list[dict[str, Any]]:
        """Return the inline comments of a pull request, the oldest first."""
        with self.lock:
            return [self._shapes.review_comment(item) for item in of_pull(self.all_review_comments, number)]

    def check_runs(self, sha: str) -> list[dict[str, Any]]:
        """Return the check runs of a commit, the oldest first, each with its `annotations`."""
        with self.lock:
            return [
                self._shapes.check_run(run, self.pulls_with_head(sha))
                | {"annotations": [self._shapes.annotation(item, sha) for item in run.annotations]}
                for run in self.all_check_runs.values()
                if run.head_sha == sha
            ]

    def pulls_with_head(self, sha: str) -> list[Pull]:
        """Return the open pull requests whose head is a commit."""
        return [pull for pull in self.pulls.values() if pull.head_sha == sha and pull.state == "open"]

    def notes(self) -> Iterator[Note]:
        """Yield everything that can be hidden."""
        yield from self.all_comments.values()
        yield from self.all_reviews.values()
        yield from self.all_review_comments.values()

    def write_issue(self, author: str, author_type: str, title: str, body: str) -> Issue:
        """Remember an issue; pull requests share its numbers."""
        now, number = self.ledger.now(), max((*self.pulls, *self.all_issues), default=0) + 1
        issue = Issue(self.ledger.id(), number, author, author_type, title, body, now, now)
        self.all_issues[number] = issue
        return issue

    def write_comment(self, number: int, author: str, author_type: str, body: str) -> Comment:
        """Remember a comment."""
        now = self.ledger.now()
        comment = Comment(self.ledger.id(), number, author, author_type, body, now, now)
        self.all_comments[comment.id] = comment
        return comment

    def write_review(self, number: int, token: Token, content: Mapping[str, Any]) -> Review:
        """Remember a review with its inline comments; each stands on a line of the diff."""
        pull = self.pulls[number]
        state = {"COMMENT": "COMMENTED", "APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED"}
        sha = content.get("commit_id", pull.head_sha)
        now = self.ledger.now()
        review = Review(
            id=self.ledger.id(),
            number=number,
            author=token.login,
            author_type=token.author_type,
            body=content.get("body") or "",
            state=state.get(content.get("event", ""), "PENDING"),
            commit_id=sha,
            submitted_at=now,
        )
        self.all_reviews[review.id] = review
        for item in content.get("comments", ()):
            self._write_inline(pull, review, item, sha, now)
        return review

    def _write_inline(self, pull: Pull, review: Review, item: Mapping[str, Any], sha: str, now: str) -> None:
        side = item.get("side", "RIGHT")
        place = places(pull.patch(item["path"]))[side, item["line"]]
        comment = ReviewComment(
            id=self.ledger.id(),
            number=pull.number,
            review_id=review.id,
            author=review.author,
            author_type=review.author_type,
            body=item["body"],
            path=item["path"],
            line=item["line"],
            side=side,
            start_line=item.get("start_line"),
            start_side=item.get("start_side"),
            position=place.position,
            original_line=item["line"],
            original_position=place.position,
            diff_hunk=place.hunk,
            commit_id=sha,
            original_commit_id=sha,
            created_at=now,
            updated_at=now,
        )
        self.all_review_comments[comment.id] = comment


def of_pull(items: Mapping[int, Any], number: int) -> list[Any]:
    """Return what belongs to a pull request, the oldest first."""
    return [item for item in items.values() if item.number == number]
