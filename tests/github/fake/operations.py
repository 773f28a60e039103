"""The calls that the fake carries out, after they were found to be right and permitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.github.fake.answers import (
    Answer,
    RefusedError,
    Request,
    invalid,
    invalid_review,
    listed,
    message,
    not_found,
    page_of,
)
from tests.github.fake.contract import example
from tests.github.fake.limits import body_problems, check_problems, review_problems, title_problems
from tests.github.fake.permissions import COMMENT, NOT_ACCESSIBLE
from tests.github.fake.records import CheckRun, Comment, Issue, Pull, Review, ReviewComment
from tests.github.fake.repository import of_pull
from tests.github.fake.shapes import Shapes, public_user
from tests.github.fake.stored_operations import OPERATIONS as STORED

_REPO = "/repos/{owner}/{repo}"


def carry_out(request: Request) -> Answer:
    """Do what is asked for.

    Raises:
        RefusedError: GitHub would not.
    """
    return _OPERATIONS[request.operation.method, request.operation.template](request)


def served() -> frozenset[tuple[str, str]]:
    """Return the method and path template of each call that is carried out."""
    return frozenset(_OPERATIONS)


def _meta(request: Request) -> Answer:
    return Answer(200, {"verifiable_password_authentication": False})


def _user(request: Request) -> Answer:
    return Answer(200, public_user(request.api, request.token.login))


def _rate_limit(request: Request) -> Answer:
    return Answer(200, example("rate-limit-overview"))


def _repository(request: Request) -> Answer:
    return Answer(200, request.shapes.repository())


# Pull requests.


def _pull_of(request: Request, name: str = "pull_number") -> Pull:
    pull = request.repository.pulls.get(request.number(name))
    if pull is None:
        raise not_found()
    return pull


def _pull(request: Request) -> Answer:
    pull = _pull_of(request)
    repository = request.repository
    lines = [line for file in pull.files for line in (file.get("patch") or "").split("\n")]
    counts = {
        "comments": len(list(of_pull(repository.all_comments, pull.number))),
        "review_comments": len(list(of_pull(repository.all_review_comments, pull.number))),
        "additions": sum(line.startswith("+") for line in lines),
        "deletions": sum(line.startswith("-") for line in lines),
    }
    return Answer(200, request.shapes.pull(pull, counts))


def _pulls(request: Request) -> Answer:
    state = request.query.get("state", "open")
    head = request.query.get("head", "")
    base = request.query.get("base", "")
    found = [
        pull
        for pull in reversed(request.repository.pulls.values())
        if state in ("all", pull.state)
        # GitHub passes over a head that names no owner.
        and (":" not in head or head == f"{pull.head_owner}:{pull.branch}")
        and base in ("", pull.base)
    ]
    return listed(request, found, request.shapes.pull)


def _pulls_of_commit(request: Request) -> Answer:
    sha = request.operation.variables["commit_sha"]
    name = request.repository.name
    found = [
        (repository.name, pull)
        for repository in request.repositories.values()
        for pull in repository.pulls.values()
        # Those of the repositories that it was forked from, too.
        if sha in pull.commits and name in (repository.name, pull.head_repository)
    ]
    return listed(request, found, lambda item: Shapes(request.api, item[0]).pull(item[1]))


def _files(request: Request) -> Answer:
    pull = _pull_of(request)
    return listed(request, pull.files[:3000], lambda file: request.shapes.file(file, pull.head_sha))


# Comments.


def _issue_of(request: Request) -> Pull:
    if not request.repository.issues:
        # The permission for issues is gone with them; who has none learns no more.
        if request.token.can("read", COMMENT[0]):
            raise RefusedError(message(410, "Issues are disabled for this repo"))
        raise RefusedError(message(403, NOT_ACCESSIBLE[request.token.kind]))
    return _pull_of(request, "issue_number")


def _issue(request: Request) -> Answer:
    if request.repository.issues and (issue := request.repository.all_issues.get(request.number("issue_number"))):
        return Answer(200, request.shapes.own_issue(issue))
    pull = _issue_of(request)
    return Answer(200, request.shapes.issue(pull, len(list(of_pull(request.repository.all_comments, pull.number)))))


def _issue_shape(request: Request, item: Pull | Issue) -> dict[str, Any]:
    return request.shapes.own_issue(item) if isinstance(item, Issue) else request.shapes.issue(item, 0)


def _issues(request: Request) -> Answer:
    repository, query = request.repository, request.query
    # Without issues GitHub still lists the pull requests.
    items = [*repository.pulls.values(), *(repository.all_issues.values() if repository.issues else ())]
    found = [
        item
        for item in sorted(items, key=lambda item: item.number, reverse=True)
        if query.get("state", "open") in ("all", item.state) and query.get("creator", item.author) == item.author
    ]
    return listed(request, found, lambda item: _issue_shape(request, item))


def _create_issue(request: Request) -> Answer:
    repository, token = request.repository, request.token
    if not repository.issues:
        raise RefusedError(message(410, "Issues has been disabled in this repository."))
    text = request.body.get("body", "")
    invalid("Issue", [*body_problems(text), *title_problems(request.body["title"])])
    issue = repository.write_issue(token.login, token.author_type, request.body["title"], text)
    shape = request.shapes.own_issue(issue)
    return Answer(201, shape, {"Location": shape["url"]})


def _update_issue(request: Request) -> Answer:
    repository = request.repository
    issue = repository.all_issues.get(request.number("issue_number"))
    if issue is None or not repository.issues:
        raise not_found()
    if "body" in request.body:
        invalid("Issue", body_problems(request.body["body"]))
        issue.body = request.body["body"]
    if request.body.get("state", issue.state) != issue.state:
        issue.state, issue.state_reason = request.body["state"], request.body.get("state_reason")
    issue.updated_at = repository.ledger.now()
    return Answer(200, request.shapes.own_issue(issue))


def _comments(request: Request) -> Answer:
    pull = _issue_of(request)
    since = request.query.get("since", "")
    found = [item for item in of_pull(request.repository.all_comments, pull.number) if item.updated_at >= since]
    return listed(request, found, request.shapes.comment)


def _create_comment(request: Request) -> Answer:
    pull = _issue_of(request)
    text = request.body["body"]
    invalid("IssueComment", body_problems(text))
    comment = request.repository.write_comment(pull.number, request.token.login, request.token.author_type, text)
    shape = request.shapes.comment(comment)
    return Answer(201, shape, {"Location": shape["url"]})


def _comment_of(request: Request) -> Comment:
    comment = request.repository.all_comments.get(request.number("comment_id"))
    if comment is None:
        raise not_found()
    return comment


def _comment(request: Request) -> Answer:
    return Answer(200, request.shapes.comment(_comment_of(request)))


def _update_comment(request: Request) -> Answer:
    comment = _comment_of(request)
    invalid("IssueComment", body_problems(request.body["body"]))
    comment.body = request.body["body"]
    comment.updated_at = request.repository.ledger.now()
    return Answer(200, request.shapes.comment(comment))


def _delete_comment(request: Request) -> Answer:
    del request.repository.all_comments[_comment_of(request).id]
    return Answer(204)


# Check runs.


def _check_shape(request: Request, run: CheckRun) -> dict[str, Any]:
    return request.shapes.check_run(run, request.repository.pulls_with_head(run.head_sha))


def _set_check(run: CheckRun, body: Mapping[str, Any], now: str) -> None:
    for name in ("name", "status", "conclusion", "details_url", "external_id", "started_at", "completed_at"):
        if name in body:
            setattr(run, name, body[name])
    if "conclusion" in body:
        run.status = "completed"
        run.completed_at = body.get("completed_at", now)
    elif "status" in body:
        run.conclusion = run.completed_at = None
    if output := body.get("output"):
        run.output |= {name: output[name] for name in ("title", "summary", "text") if name in output}
        # An update adds to the annotations that there are.
        run.annotations += output.get("annotations", [])


def _create_check(request: Request) -> Answer:
    invalid("CheckRun", check_problems(request.body, create=True))
    now = request.repository.ledger.now()
    run = CheckRun(
        id=request.repository.ledger.id(),
        name=request.body["name"],
        head_sha=request.body["head_sha"],
        app=request.token.login,
        status="queued",
        conclusion=None,
        started_at=now,
        completed_at=None,
        details_url=None,
        external_id=None,
    )
    _set_check(run, request.body, now)
    request.repository.all_check_runs[run.id] = run
    return Answer(201, _check_shape(request, run))


def _check_of(request: Request) -> CheckRun:
    run = request.repository.all_check_runs.get(request.number("check_run_id"))
    if run is None:
        raise not_found()
    return run


def _check(request: Request) -> Answer:
    return Answer(200, _check_shape(request, _check_of(request)))


def _update_check(request: Request) -> Answer:
    run = _check_of(request)
    if run.app != request.token.login:
        text = "Invalid app_id `15368` - check run can only be modified by the GitHub App that created it."
        raise RefusedError(message(403, text))
    invalid("CheckRun", check_problems(request.body, create=False))
    _set_check(run, request.body, request.repository.ledger.now())
    return Answer(200, _check_shape(request, run))


def _annotations(request: Request) -> Answer:
    run = _check_of(request)
    return listed(request, run.annotations, lambda item: request.shapes.annotation(item, run.head_sha))


def _checks(request: Request) -> Answer:
    ref, query = request.operation.variables["ref"], request.query
    found = [
        run
        for run in reversed(request.repository.all_check_runs.values())
        if run.head_sha == ref
        and query.get("check_name", run.name) == run.name
        and query.get("status", run.status) == run.status
    ]
    if query.get("filter", "latest") == "latest":
        found = list({run.name: run for run in reversed(found)}.values())[::-1]
    shown, headers = page_of(request, found, lambda run: _check_shape(request, run))
    return Answer(200, {"total_count": len(found), "check_runs": shown}, headers)


# Reviews.


def _reviews(request: Request) -> Answer:
    return listed(request, of_pull(request.repository.all_reviews, _pull_of(request).number), request.shapes.review)


def _create_review(request: Request) -> Answer:
    pull = _pull_of(request)
    invalid_review(review_problems(request.body, pull))
    review = request.repository.write_review(pull.number, request.token, request.body)
    return Answer(200, request.shapes.review(review))


def _review_of(request: Request) -> Review:
    review = request.repository.all_reviews.get(request.number("review_id"))
    if review is None or review.number != request.number("pull_number"):
        raise not_found()
    return review


def _review(request: Request) -> Answer:
    return Answer(200, request.shapes.review(_review_of(request)))


def _update_review(request: Request) -> Answer:
    review = _review_of(request)
    invalid_review(body_problems(request.body["body"]))
    review.body = request.body["body"]
    return Answer(200, request.shapes.review(review))


def _review_comments(request: Request) -> Answer:
    found = of_pull(request.repository.all_review_comments, _pull_of(request).number)
    return listed(request, found, request.shapes.review_comment)


def _review_comment_of(request: Request) -> ReviewComment:
    comment = request.repository.all_review_comments.get(request.number("comment_id"))
    if comment is None:
        raise not_found()
    return comment


def _review_comment(request: Request) -> Answer:
    return Answer(200, request.shapes.review_comment(_review_comment_of(request)))


def _update_review_comment(request: Request) -> Answer:
    comment = _review_comment_of(request)
    invalid("PullRequestReviewComment", body_problems(request.body["body"]))
    comment.body = request.body["body"]
    comment.updated_at = request.repository.ledger.now()
    return Answer(200, request.shapes.review_comment(comment))


def _delete_review_comment(request: Request) -> Answer:
    del request.repository.all_review_comments[_review_comment_of(request).id]
    return Answer(204)


_OPERATIONS: Mapping[tuple[str, str], Callable[[Request], Answer]] = {
    ("GET", "/meta"): _meta,
    ("GET", "/user"): _user,
    ("GET", "/rate_limit"): _rate_limit,
    ("GET", _REPO): _repository,
    ("POST", f"{_REPO}/check-runs"): _create_check,
    ("GET", f"{_REPO}/check-runs/{{check_run_id}}"): _check,
    ("PATCH", f"{_REPO}/check-runs/{{check_run_id}}"): _update_check,
    ("GET", f"{_REPO}/check-runs/{{check_run_id}}/annotations"): _annotations,
    ("GET", f"{_REPO}/commits/{{ref}}/check-runs"): _checks,
    ("GET", f"{_REPO}/commits/{{commit_sha}}/pulls"): _pulls_of_commit,
    ("GET", f"{_REPO}/issues"): _issues,
    ("POST", f"{_REPO}/issues"): _create_issue,
    ("GET", f"{_REPO}/issues/{{issue_number}}"): _issue,
    ("PATCH", f"{_REPO}/issues/{{issue_number}}"): _update_issue,
    ("GET", f"{_REPO}/issues/{{issue_number}}/comments"): _comments,
    ("POST", f"{_REPO}/issues/{{issue_number}}/comments"): _create_comment,
    ("GET", f"{_REPO}/issues/comments/{{comment_id}}"): _comment,
    ("PATCH", f"{_REPO}/issues/comments/{{comment_id}}"): _update_comment,
    ("DELETE", f"{_REPO}/issues/comments/{{comment_id}}"): _delete_comment,
    ("GET", f"{_REPO}/pulls"): _pulls,
    ("GET", f"{_REPO}/pulls/{{pull_number}}"): _pull,
    ("GET", f"{_REPO}/pulls/{{pull_number}}/files"): _files,
    ("GET", f"{_REPO}/pulls/{{pull_number}}/reviews"): _reviews,
    ("POST", f"{_REPO}/pulls/{{pull_number}}/reviews"): _create_review,
    ("GET", f"{_REPO}/pulls/{{pull_number}}/reviews/{{review_id}}"): _review,
    ("PUT", f"{_REPO}/pulls/{{pull_number}}/reviews/{{review_id}}"): _update_review,
    ("GET", f"{_REPO}/pulls/{{pull_number}}/comments"): _review_comments,
    ("GET", f"{_REPO}/pulls/comments/{{comment_id}}"): _review_comment,
    ("PATCH", f"{_REPO}/pulls/comments/{{comment_id}}"): _update_review_comment,
    ("DELETE", f"{_REPO}/pulls/comments/{{comment_id}}"): _delete_review_comment,
    **STORED,
}
