"""JSON of GitHub's real shape for what the fake remembers.

Large objects are GitHub's own examples with what is remembered put in their place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.github.fake.contract import example
from tests.github.fake.records import CheckRun, Comment, Issue, Note, Pull, Review, ReviewComment
from tests.github.fake.stored_shapes import StoredShapes

PAGES = "https://github.com"
_EXAMPLE_REPOSITORY = "octocat/Hello-World"
_EXAMPLE_SHA = "6dcb09b5b57875f334f61aebed695e2e4193db5e"


@dataclass(frozen=True, slots=True)
class Shapes(StoredShapes):
    """Makes the JSON of one repository.

    Attributes:
        api: where the API is, as the client calls it.
        name: `owner/name`.
    """

    api: str
    name: str

    @property
    def url(self) -> str:
        """The repository in the API."""
        return f"{self.api}/repos/{self.name}"

    @property
    def page(self) -> str:
        """The repository's page."""
        return f"{PAGES}/{self.name}"

    @property
    def number(self) -> int:
        """The repository's id."""
        return number_of(self.name)

    def repository(self) -> dict[str, Any]:
        """Return the whole repository."""
        shape: dict[str, Any] = json.loads(_text("full-repository-default-response", self.api, self.name, 0, ""))
        for name in ("source", "parent", "template_repository"):
            shape.pop(name, None)
        owner, short = self.name.split("/")
        own = {"id": self.number, "name": short, "full_name": self.name, "owner": user(self.api, owner)}
        return shape | own | {"language": None, "default_branch": "main"}

    def comment(self, comment: Comment) -> dict[str, Any]:
        """Return a comment."""
        return {
            "id": comment.id,
            "node_id": comment.node_id,
            "url": f"{self.url}/issues/comments/{comment.id}",
            "html_url": f"{self.page}/pull/{comment.number}#issuecomment-{comment.id}",
            "issue_url": f"{self.url}/issues/{comment.number}",
            "body": comment.body,
            "user": user(self.api, comment.author, comment.author_type),
            "created_at": comment.created_at,
            "updated_at": comment.updated_at,
            "author_association": _association(comment),
            "performed_via_github_app": None,
            "reactions": self._reactions(f"issues/comments/{comment.id}"),
            "minimized": None if comment.minimized is None else {"reason": comment.minimized.lower()},
        }

    def review(self, review: Review) -> dict[str, Any]:
        """Return a review."""
        html = f"{self.page}/pull/{review.number}#pullrequestreview-{review.id}"
        pull = f"{self.url}/pulls/{review.number}"
        shape = {
            "id": review.id,
            "node_id": review.node_id,
            "user": user(self.api, review.author, review.author_type),
            "body": review.body,
            "state": review.state,
            "html_url": html,
            "pull_request_url": pull,
            "author_association": _association(review),
            "_links": {"html": {"href": html}, "pull_request": {"href": pull}},
            "commit_id": review.commit_id,
        }
        return shape if review.state == "PENDING" else shape | {"submitted_at": review.submitted_at}

    def review_comment(self, comment: ReviewComment) -> dict[str, Any]:
        """Return an inline comment of a review."""
        url = f"{self.url}/pulls/comments/{comment.id}"
        html = f"{self.page}/pull/{comment.number}#discussion_r{comment.id}"
        pull = f"{self.url}/pulls/{comment.number}"
        return {
            "url": url,
            "pull_request_review_id": comment.review_id,
            "id": comment.id,
            "node_id": comment.node_id,
            "diff_hunk": comment.diff_hunk,
            "path": comment.path,
            "commit_id": comment.commit_id,
            "original_commit_id": comment.original_commit_id,
            "user": user(self.api, comment.author, comment.author_type),
            "body": comment.body,
            "created_at": comment.created_at,
            "updated_at": comment.updated_at,
            "html_url": html,
            "pull_request_url": pull,
            "author_association": _association(comment),
            "_links": {"self": {"href": url}, "html": {"href": html}, "pull_request": {"href": pull}},
            "reactions": self._reactions(f"pulls/comments/{comment.id}"),
            "start_line": comment.start_line,
            "original_start_line": comment.start_line,
            "start_side": comment.start_side,
            "line": comment.line,
            "original_line": comment.original_line,
            "side": comment.side,
            "original_position": comment.original_position,
            "position": comment.position,
            "subject_type": "line",
        }

    def check_run(self, run: CheckRun, pulls: Sequence[Pull]) -> dict[str, Any]:
        """Return a check run; `pulls` are the pull requests with its commit as their head."""
        url = f"{self.url}/check-runs/{run.id}"
        app = example("check-run")["app"] | {"id": 15368, "slug": "github-actions", "name": "GitHub Actions"}
        return {
            "id": run.id,
            "name": run.name,
            "node_id": run.node_id,
            "head_sha": run.head_sha,
            "external_id": run.external_id or "",
            "url": url,
            "html_url": f"{self.page}/runs/{run.id}",
            "details_url": run.details_url or f"{self.page}/runs/{run.id}",
            "status": run.status,
            "conclusion": run.conclusion,
            "started_at": run.started_at,
            "completed_at": run.completed_at,
            "output": {
                "title": run.output.get("title"),
                "summary": run.output.get("summary"),
                "text": run.output.get("text"),
                "annotations_count": len(run.annotations),
                "annotations_url": f"{url}/annotations",
            },
            "check_suite": {"id": int(run.head_sha[:7], 16)},
            "app": app,
            "pull_requests": [self._minimal(pull) for pull in pulls],
        }

    def annotation(self, annotation: Mapping[str, Any], sha: str) -> dict[str, Any]:
        """Return an annotation of a check run."""
        return {
            "path": annotation["path"],
            "blob_href": f"{self.page}/blob/{sha}/{annotation['path']}",
            "start_line": annotation["start_line"],
            "start_column": annotation.get("start_column"),
            "end_line": annotation["end_line"],
            "end_column": annotation.get("end_column"),
            "annotation_level": annotation["annotation_level"],
            "title": annotation.get("title"),
            "message": annotation["message"],
            "raw_details": annotation.get("raw_details"),
        }

    def file(self, file: Mapping[str, Any], sha: str) -> dict[str, Any]:
        """Return a file of a pull request's diff."""
        path = file["filename"]
        patch = file.get("patch")
        lines = (patch or "").split("\n")
        added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
        shape = {
            "sha": "bbcd538c8e72b8c175046e27cc8f907076331401",
            "filename": path,
            "status": file.get("status", "modified"),
            "additions": added,
            "deletions": removed,
            "changes": added + removed,
            "blob_url": f"{self.page}/blob/{sha}/{path}",
            "raw_url": f"{self.page}/raw/{sha}/{path}",
            "contents_url": f"{self.url}/contents/{path}?ref={sha}",
        }
        return shape if patch is None else shape | {"patch": patch}

    def pull(self, pull: Pull, counts: Mapping[str, int] | None = None) -> dict[str, Any]:
        """Return a pull request; with counts as it is alone, without them as it is in lists."""
        name = "pull-request-simple-items" if counts is None else "pull-request"
        found = json.loads(_text(name, self.api, self.name, pull.number, pull.head_sha))
        shape: dict[str, Any] = found[0] if isinstance(found, list) else found
        closed = None if pull.state == "open" else pull.updated_at
        shape |= {
            "id": pull.id,
            "node_id": f"PR_kwDO{pull.id:08}",
            "number": pull.number,
            "state": pull.state,
            "title": pull.title,
            "user": user(self.api, pull.author),
            "locked": False,
            "active_lock_reason": None,
            "created_at": pull.created_at,
            "updated_at": pull.updated_at,
            "closed_at": closed,
            "merged_at": None,
            "merge_commit_sha": pull.merge_sha,
            "head": self._side(shape["base"], pull.head_repository, pull.head_owner, pull.branch, pull.head_sha),
            "base": self._side(shape["base"], self.name, self.name.split("/")[0], pull.base, "0" * 39 + "1"),
            "draft": False,
        }
        for empty in ("labels", "assignees", "requested_reviewers", "requested_teams"):
            shape[empty] = []
        for nothing in ("milestone", "assignee", "auto_merge"):
            shape[nothing] = None
        if counts is not None:
            shape |= {
                "merged": False,
                "merged_by": None,
                "mergeable": pull.merge_sha is not None or None,
                "mergeable_state": "clean" if pull.merge_sha else "unknown",
                "commits": len(pull.commits),
                "changed_files": len(pull.files),
                **counts,
            }
        return shape

    def issue(self, pull: Pull, comments: int) -> dict[str, Any]:
        """Return a pull request as the issue that it also is."""
        shape: dict[str, Any] = json.loads(_text("issue", self.api, self.name, pull.number, pull.head_sha))
        return shape | {
            "id": pull.id,
            "node_id": f"PR_kwDO{pull.id:08}",
            "number": pull.number,
            "state": pull.state,
            "state_reason": None,
            "title": pull.title,
            "user": user(self.api, pull.author),
            "labels": [],
            "assignee": None,
            "assignees": [],
            "milestone": None,
            "comments": comments,
            "created_at": pull.created_at,
            "updated_at": pull.updated_at,
            "closed_at": None if pull.state == "open" else pull.updated_at,
            "html_url": f"{self.page}/pull/{pull.number}",
            "pull_request": {
                "url": f"{self.url}/pulls/{pull.number}",
                "html_url": f"{self.page}/pull/{pull.number}",
                "diff_url": f"{self.page}/pull/{pull.number}.diff",
                "patch_url": f"{self.page}/pull/{pull.number}.patch",
                "merged_at": None,
            },
        }

    def own_issue(self, issue: Issue) -> dict[str, Any]:
        """Return an issue that is no pull request."""
        shape: dict[str, Any] = json.loads(_text("issue", self.api, self.name, issue.number, ""))
        for name in ("pull_request", "closed_by"):
            shape.pop(name, None)
        return shape | {
            "id": issue.id,
            "node_id": issue.node_id,
            "number": issue.number,
            "state": issue.state,
            "state_reason": issue.state_reason,
            "title": issue.title,
            "body": issue.body,
            "user": user(self.api, issue.author, issue.author_type),
            "labels": [],
            "assignee": None,
            "assignees": [],
            "milestone": None,
            "comments": 0,
            "created_at": issue.created_at,
            "updated_at": issue.updated_at,
            "closed_at": None if issue.state == "open" else issue.updated_at,
            "html_url": f"{self.page}/issues/{issue.number}",
        }

    def _side(
        self, like: Mapping[str, Any], repository: str | None, owner: str, branch: str, sha: str
    ) -> dict[str, Any]:
        repo = None
        if repository is not None:
            text = json.dumps(like["repo"]).replace(self.name, repository)
            repo = json.loads(text) | {
                "id": number_of(repository),
                "name": repository.split("/")[1],
                "full_name": repository,
                "owner": user(self.api, owner),
                "fork": repository != self.name,
            }
        return {"label": f"{owner}:{branch}", "ref": branch, "sha": sha, "user": user(self.api, owner), "repo": repo}

    def _minimal(self, pull: Pull) -> dict[str, Any]:
        def side(repository: str, branch: str, sha: str) -> dict[str, Any]:
            repo = {"id": number_of(repository), "url": f"{self.api}/repos/{repository}"}
            return {"ref": branch, "sha": sha, "repo": repo | {"name": repository.split("/")[1]}}

        return {
            "id": pull.id,
            "number": pull.number,
            "url": f"{self.url}/pulls/{pull.number}",
            "head": side(pull.head_repository or self.name, pull.branch, pull.head_sha),
            "base": side(self.name, pull.base, "0" * 39 + "1"),
        }

    def _reactions(self, of: str) -> dict[str, Any]:
        kinds = ("+1", "-1", "laugh", "confused", "heart", "hooray", "eyes", "rocket")
        return {"url": f"{self.url}/{of}/reactions", "total_count": 0} | dict.fromkeys(kinds, 0)


def user(api: str, login: str, author_type: str = "User") -> dict[str, Any]:
    """Return an account as it stands in other objects."""
    url = f"{api}/users/{login.replace('[', '%5B').replace(']', '%5D')}"
    slug = login.removesuffix("[bot]")
    return {
        "login": login,
        "id": number_of(login),
        "node_id": f"U_kgDO{number_of(login):08}",
        "avatar_url": f"https://avatars.githubusercontent.com/u/{number_of(login)}?v=4",
        "gravatar_id": "",
        "url": url,
        "html_url": f"{PAGES}/apps/{slug}" if author_type == "Bot" else f"{PAGES}/{login}",
        "followers_url": f"{url}/followers",
        "following_url": f"{url}/following{{/other_user}}",
        "gists_url": f"{url}/gists{{/gist_id}}",
        "starred_url": f"{url}/starred{{/owner}}{{/repo}}",
        "subscriptions_url": f"{url}/subscriptions",
        "organizations_url": f"{url}/orgs",
        "repos_url": f"{url}/repos",
        "events_url": f"{url}/events{{/privacy}}",
        "received_events_url": f"{url}/received_events",
        "type": author_type,
        "user_view_type": "public",
        "site_admin": False,
    }


def public_user(api: str, login: str) -> dict[str, Any]:
    """Return the account of a personal token."""
    texts = dict.fromkeys(("name", "company", "blog", "location", "email", "hireable", "bio"))
    counts = dict.fromkeys(("public_repos", "public_gists", "followers", "following"), 0)
    times = dict.fromkeys(("created_at", "updated_at"), "2020-01-01T00:00:00Z")
    return user(api, login) | texts | counts | times


def number_of(name: str) -> int:
    """Return the id of a repository or account: the same for the same name."""
    return int.from_bytes(name.encode()[-4:], "big") % 90_000_000 + 10_000_000


def _association(note: Note) -> str:
    return "NONE" if note.author_type == "Bot" else "CONTRIBUTOR"


@cache
def _text(name: str, api: str, repository: str, number: int, sha: str) -> str:
    """Return an example as text, as if it were of a repository, a pull request and a commit."""
    text = json.dumps(example(name)).replace("https://api.github.com", api).replace(_EXAMPLE_REPOSITORY, repository)
    return text.replace("/1347", f"/{number}").replace(_EXAMPLE_SHA, sha)
