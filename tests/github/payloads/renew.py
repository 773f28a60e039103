"""Write the payloads anew: `python -m tests.github.payloads.renew PACKAGE/api.github.com/index.json`.

The examples are those of the npm package `@octokit/webhooks-examples`. They are put into one repository, octo/shop with
its pull request 7, and what the package has no example of is made from the nearest one.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.github.events import AFTER, BASE, HEAD, MERGE, PAYLOADS, RUN, changed

_ZEROS = "0" * 40
_REPOSITORY_ID = 186853002
_FORK_ID = 299314022
_NAMES = {
    "Codertocat/Hello-World": "octo/shop",
    "octo-org/octo-repo": "octo/shop",
    "Codertocat:": "octo:",
    "users/Codertocat": "users/alice",
    "Hello-World": "shop",
    "octo-repo": "shop",
    "octo-org": "octo",
    "Codertocat": "alice",
}


def payloads(examples: dict[str, list[Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every payload, untrimmed, by its file's name without ending."""
    opened = _with_owner(
        examples["pull_request"][0], ("repository", "pull_request.head.repo", "pull_request.base.repo")
    )
    pull = changed(
        opened,
        {
            "number": 7,
            "pull_request.number": 7,
            "pull_request.head.sha": HEAD,
            "pull_request.head.ref": "topic",
            "pull_request.base.sha": BASE,
            "pull_request.base.ref": "main",
            "pull_request.base.label": "octo:main",
            "pull_request.head.label": "octo:topic",
            "pull_request.html_url": "https://github.com/octo/shop/pull/7",
            "pull_request.url": "https://api.github.com/repos/octo/shop/pulls/7",
        },
    )
    fork = changed(_fork_of(pull, "pull_request.head.repo"), {"pull_request.head.label": "mallory:topic"})
    yield "pull_request", pull
    # As it comes: the merge commit is still that of the push before.
    pushed = {"action": "synchronize", "before": BASE, "after": HEAD, "pull_request.merge_commit_sha": "e" * 40}
    yield "pull_request.synchronize", changed(pull, pushed)
    yield "pull_request.fork", fork
    yield "pull_request.deleted-fork", changed(fork, {"pull_request.head.repo": None})
    bot = {"login": "dependabot[bot]", "id": 49699333, "type": "Bot"}
    yield (
        "pull_request.dependabot",
        changed(
            pull,
            {
                "sender": {**pull["sender"], **bot},
                "pull_request.user": {**pull["sender"], **bot},
                "pull_request.head.ref": "dependabot/pip/httpx2-0.2",
            },
        ),
    )
    closed = {"action": "closed", "pull_request.state": "closed", "pull_request.closed_at": "2019-05-15T16:00:00Z"}
    yield "pull_request.closed", changed(pull, {**closed, "pull_request.merge_commit_sha": MERGE})
    merged = {"pull_request.merged": True, "pull_request.merged_at": "2019-05-15T16:00:00Z"}
    yield "pull_request.merged", changed(pull, {**closed, **merged, "pull_request.merge_commit_sha": AFTER})
    yield "pull_request_target", pull
    yield "pull_request_target.fork", fork
    review = _with_owner(examples["pull_request_review"][0], ("repository",))
    simple = {"number": 7, "merge_commit_sha": MERGE, "head": fork["pull_request"]["head"]}
    review["pull_request"].update(copy.deepcopy({**simple, "base": pull["pull_request"]["base"]}))
    yield "pull_request_review.fork", review

    yield from _pushes(examples)

    queue = {"head_sha": AFTER, "base_sha": BASE, "base_ref": "refs/heads/main"}
    queue["head_ref"] = f"refs/heads/gh-readonly-queue/main/pr-7-{BASE}"
    group = _with_owner(examples["merge_group"][0], ("repository",))
    yield "merge_group", changed(group, {f"merge_group.{name}": value for name, value in queue.items()})

    yield from _workflow_runs(examples, pull)

    comment = _with_owner(examples["issue_comment"][0], ("repository",))
    comment = changed(comment, {"issue.number": 7, "comment.body": "/evaluate"})
    yield "issue_comment.issue", comment
    api, page = "https://api.github.com/repos/octo/shop/pulls/7", "https://github.com/octo/shop/pull/7"
    links = {"url": api, "html_url": page, "diff_url": f"{page}.diff", "patch_url": f"{page}.patch", "merged_at": None}
    yield "issue_comment", changed(comment, {"issue.pull_request": links})

    dispatch = _with_owner(examples["workflow_dispatch"][0], ("repository",))
    dispatch = changed(dispatch, {"ref": "refs/heads/main", "workflow": ".github/workflows/evaluate.yml"})
    yield "workflow_dispatch", changed(dispatch, {"inputs": None})
    yield "workflow_dispatch.pull-request", changed(dispatch, {"inputs": {"pr-number": "7"}})
    # No webhook of that name exists: the runner writes the cron line and what every event has.
    yield "schedule", {"schedule": "17 4 * * 1", "repository": copy.deepcopy(pull["repository"])}
    yield "release", _with_owner(examples["release"][0], ("repository",))
    yield "repository_dispatch", _with_owner(examples["repository_dispatch"][0], ("repository",))

    yield "pull_request.enterprise", _enterprise(fork)


def _pushes(examples: dict[str, list[Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    created_tag, deleted_tag, *_, created_branch, _, _ = examples["push"]
    branch = _with_owner(created_branch, ("repository",))
    branch = changed(branch, {"ref": "refs/heads/topic", "after": HEAD, "head_commit.id": HEAD})
    yield "push.new-branch", changed(branch, {"before": _ZEROS, "created": True})
    yield "push", changed(branch, {"before": BASE, "created": False})
    tag = _with_owner(created_tag, ("repository",))
    # `after` is the annotated tag itself.
    yield "push.tag", changed(tag, {"ref": "refs/tags/v1.2.0", "after": "9" * 40, "head_commit.id": AFTER})
    deleted = _with_owner(deleted_tag, ("repository",))
    yield "push.deleted", changed(deleted, {"ref": "refs/heads/topic", "before": HEAD})


def _workflow_runs(examples: dict[str, list[Any]], pull: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    places = ("repository", "workflow_run.repository", "workflow_run.head_repository")
    run = changed(
        _with_owner(examples["workflow_run"][1], places),
        {
            "workflow_run.name": "Evaluate",
            "workflow_run.path": ".github/workflows/evaluate.yml",
            "workflow_run.id": int(RUN) - 1,
            "workflow_run.event": "pull_request",
            "workflow_run.head_sha": HEAD,
            "workflow_run.head_branch": "topic",
            "workflow_run.head_commit.id": HEAD,
        },
    )
    place = {"id": _REPOSITORY_ID, "url": "https://api.github.com/repos/octo/shop", "name": "shop"}
    listed = {
        "url": "https://api.github.com/repos/octo/shop/pulls/7",
        "id": pull["pull_request"]["id"],
        "number": 7,
        "head": {"ref": "topic", "sha": HEAD, "repo": place},
        "base": {"ref": "main", "sha": BASE, "repo": place},
    }
    yield "workflow_run", changed(run, {"workflow_run.pull_requests": [listed]})
    # GitHub lists no pull request for the run of a fork.
    fork = changed(_fork_of(run, "workflow_run.head_repository"), {"workflow_run.pull_requests": []})
    yield "workflow_run.fork", fork
    yield "workflow_run.deleted-fork", changed(fork, {"workflow_run.head_repository": None})


def _with_owner(example: dict[str, Any], places: tuple[str, ...]) -> dict[str, Any]:
    """Return an example in which the repositories named are octo/shop and everybody else is alice."""
    text = json.dumps(example)
    for old, new in _NAMES.items():
        text = text.replace(old, new)
    payload: dict[str, Any] = json.loads(text)
    for place in places:
        values = {"id": _REPOSITORY_ID, "owner.login": "octo", "default_branch": "main", "private": False}
        known = json.loads(json.dumps(_at(payload, place)))
        values = {name: value for name, value in values.items() if name.split(".")[0] in known}
        payload = changed(payload, {f"{place}.{name}": value for name, value in values.items()})
    return payload


def _fork_of(payload: dict[str, Any], place: str) -> dict[str, Any]:
    repository = json.loads(json.dumps(_at(payload, place)).replace("octo/shop", "mallory/shop"))
    repository.update({"id": _FORK_ID, "fork": True})
    repository["owner"]["login"] = "mallory"
    return changed(payload, {place: repository})


def _enterprise(payload: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(payload).replace("https://api.github.com/", "https://ghe.example/api/v3/")
    enterprise: dict[str, Any] = json.loads(text.replace("https://github.com/", "https://ghe.example/"))
    return {**enterprise, "enterprise": {"id": 1, "slug": "octo-enterprise", "name": "Octo"}}


def _at(payload: dict[str, Any], place: str) -> Any:
    value: Any = payload
    for name in place.split("."):
        value = value[name]
    return value


def trimmed(value: Any) -> Any:
    """Return a payload without its many addresses."""
    if isinstance(value, list):
        return [trimmed(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {name: item for name, item in value.items() if not name.endswith("_url") or name == "html_url"}
    return {name: trimmed(item) for name, item in kept.items() if name != "_links"}


def main(file: str) -> None:
    """Write all payloads beside this module."""
    described = json.loads(Path(file).read_text(encoding="utf-8"))
    for name, payload in payloads({event["name"]: event["examples"] for event in described}):
        text = json.dumps(trimmed(payload), indent=1, ensure_ascii=False, sort_keys=True)
        (PAYLOADS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
