"""Calls of PyGithub's objects, as the channels make them, for tests of what is below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holodeck_action.github.lookup import read_pull
from holodeck_action.github.rest.api import Api, every
from holodeck_action.github.rest.objects import Pull

if TYPE_CHECKING:
    from github.CheckRun import CheckRun
    from github.IssueComment import IssueComment
    from github.PullRequestComment import PullRequestComment
    from github.PullRequestReview import PullRequestReview

RUNNING = {"title": "running", "summary": "under way"}


def pull(api: Api, number: int) -> Pull:
    """Read a pull request."""
    return read_pull(api.repository.get_pull(number))


def comments(api: Api, number: int) -> tuple[IssueComment, ...]:
    """List the comments of a pull request."""
    return every(api.repository.get_issue(number).get_comments(), "id", "node_id", "body", "html_url", "user")


def create_comment(api: Api, number: int, body: str) -> IssueComment:
    """Write a comment."""
    return api.repository.get_issue(number).create_comment(body)


def update_comment(api: Api, comment_id: int, body: str) -> IssueComment:
    """Change a comment."""
    comment = api.repository.get_issue(7).get_comment(comment_id)
    comment.edit(body)
    return comment


def create_review(api: Api, number: int, sha: str, body: str, inline: Sequence[tuple[str, int, str]]) -> Any:
    """Write a review with inline comments: path, line and text."""
    from github.Commit import Commit

    commit = Commit(api.repository.requester, attributes={"sha": sha})
    written: list[Any] = [{"path": path, "line": line, "side": "RIGHT", "body": text} for path, line, text in inline]
    return api.repository.get_pull(number).create_review(commit, body, "COMMENT", written)


def update_review(api: Api, number: int, review_id: int, body: str) -> PullRequestReview:
    """Change a review."""
    from github.PullRequestReview import PullRequestReview

    known = {"id": review_id, "pull_request_url": f"/repos/octo/shop/pulls/{number}"}
    review = PullRequestReview(api.repository.requester, {}, known)
    review.edit(body)
    return review


def review_comments(api: Api, number: int) -> tuple[PullRequestComment, ...]:
    """List the inline comments of a pull request."""
    return every(api.repository.get_pull(number).get_review_comments(), "id", "node_id", "body")


def create_check(api: Api, sha: str, name: str, external_id: str) -> CheckRun:
    """Begin a check run."""
    return api.repository.create_check_run(name, sha, external_id=external_id, status="in_progress", output={**RUNNING})


def annotate(api: Api, check_id: int, annotations: Sequence[dict[str, Any]]) -> None:
    """Add annotations to a check run."""
    run = api.repository.get_check_run(check_id)
    run.edit(status="in_progress", output={**RUNNING, "annotations": [*annotations]})


def annotation_count(api: Api, check_id: int) -> int:
    """Read the number of a check run's annotations."""
    return api.repository.get_check_run(check_id).output.annotations_count


def checks(api: Api, sha: str, name: str) -> tuple[CheckRun, ...]:
    """List the check runs of a name."""
    return every(api.repository.get_commit(sha).get_check_runs(check_name=name, filter="all"), "id", "external_id")
