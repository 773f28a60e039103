"""An issue with a marker: opened or updated while a problem exists, closed when the problem is gone
(docs/github.md)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holodeck_action.github.channels import (
    Access,
    Channel,
    Failed,
    Outcome,
    Published,
    Skipped,
    Stopped,
    error_clause,
    first_line,
    newest_clause,
    same_body,
    second_line,
)
from holodeck_action.github.check_run import token_can_check
from holodeck_action.github.job import Job
from holodeck_action.github.rest.api import every, page_url
from holodeck_action.github.rest.objects import ApiError
from holodeck_action.github.sticky_comment import marker
from holodeck_action.reports.comment.size_limit import COMMENT, cut
from holodeck_action.text.plain import one_line
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import environment_secrets

if TYPE_CHECKING:
    from github.Issue import Issue

_TITLE_LIMIT = 200
"""Maximum number of characters of a title; GitHub accepts 256."""
_CLOSED = "<!-- holodeck-action:closed -->"
"""Second line of an issue that this action has closed, and may open again."""
_UNKNOWN = "whether the issue was {} is unknown; the next run brings it up to date"


class IssueRequest(Struct, frozen=True):
    """The issue to write.

    Attributes:
        id: identifies the issue, which has a marker made of it. Requests with different ids have different issues.
        title: title of a new issue, as Markdown of one line. The title of an existing issue is not changed.
        text: the body as Markdown, in which untrusted text is escaped. A long text is cut at the end of a line.
        wrong: whether the problem exists; if not, open issues are closed, and no issue is created.
    """

    id: str
    title: str
    text: str
    wrong: bool


def post_issue(job: Job, folder: Path, request: IssueRequest) -> Channel:
    """Open, update or close the issue; secrets from the job's environment are redacted.

    Only issues that this token wrote are changed (see `Access.own_items`). An issue that a person closed stays closed,
    and a new one is opened. A failure is returned as the channel's outcome, not raised.

    Args:
        job: access to GitHub.
        folder: a folder of the checkout; outside of a workflow, its repository gets the issue.
        request: the issue to write.
    """
    redact = Redactor(environment_secrets(job.environ) | {job.token}).text
    try:
        api = job.api(folder)
    except ApiError as error:
        return Channel("issue", Skipped(str(error), requested=True))
    github = Access(api, app=token_can_check(job.token) is None, pause=job.pause)
    title = one_line(redact(request.title), _TITLE_LIMIT)
    issue = _MarkedIssue(github, marker(redact(request.id), "issue"), title, redact(request.text), request.wrong)
    try:
        return Channel("issue", issue.publish())
    except Exception as error:  # noqa: BLE001 - no channel hides the verdict
        return Channel("issue", Failed(f"holodeck-action has a defect: {type(error).__name__}; please report it"))


class _MarkedIssue(Struct, frozen=True):
    github: Access
    first_line: str
    title: str
    text: str
    wrong: bool

    def publish(self) -> Outcome:
        note = " (`issues: write` to write the issue)"
        try:
            with self.github.stopping("the issues could not be read", "issues: read", note):
                ours = self._own_issues()
            open_issues = [issue for issue in ours if issue.state == "open"]
            return self._update(ours, open_issues) if self.wrong else self._close(open_issues)
        except ApiError as error:
            return self._refusal_outcome(error)
        except Stopped as stopped:
            return stopped.outcome

    def _update(self, ours: Sequence[Issue], open_issues: Sequence[Issue]) -> Outcome:
        body = self._body()
        if open_issues:
            newest = open_issues[0]
            more = newest_clause(len(open_issues), "open issues")
            if same_body(newest.body, body):
                return Published(f"unchanged{more}", page_url(newest))
            newest.edit(body=body)
            return Published(f"updated{more}", page_url(newest))
        if ours and second_line(ours[0].body) == _CLOSED:
            ours[0].edit(body=body, state="open", state_reason="reopened")
            return Published("opened again", page_url(ours[0]))
        return self._create(body)

    def _close(self, open_issues: Sequence[Issue]) -> Outcome:
        if not open_issues:
            return Skipped("nothing is wrong, and no issue of an earlier run is open", requested=False)
        body = self._body(f"{_CLOSED}\n")
        for issue in open_issues:
            issue.edit(body=body, state="closed", state_reason="completed")
        return Published("closed", page_url(open_issues[0]))

    def _body(self, state: str = "") -> str:
        text = f"{self.first_line}\n{state}\n{self.text}"
        fits = COMMENT.holds(len(text), len(text.encode("utf-8", "replace")))
        return text if fits else cut(text, COMMENT, "the rest is in the results of the run")

    def _create(self, body: str) -> Outcome:
        made = self.github.create(
            lambda: self.github.api.repository.create_issue(self.title, body),
            lambda: next((issue for issue in self._own_issues() if issue.state == "open"), None),
            _UNKNOWN.format("opened"),
        )
        return Published("opened", page_url(made))

    def _own_issues(self) -> Sequence[Issue]:
        """Return our issues with the marker, the newest first.

        GitHub lists the issues of one author only if the author is known; if not, it lists all.
        """
        try:
            author: dict[str, Any] = {"creator": self.github.api.viewer()}
        except ApiError:
            author = {}
        issues = self.github.api.repository.get_issues(state="all", **author)
        listed = every(issues, "number", "node_id", "body", "state", "user")
        # GitHub lists pull requests, too.
        found = (issue for issue in listed if "/pull/" not in page_url(issue))
        owned = self.github.own_items(found, self._is_marked, "an issue with our marker is")
        return [issue for part in owned for issue, _ in part]

    def _is_marked(self, body: str) -> bool:
        return first_line(body) == self.first_line

    def _refusal_outcome(self, error: ApiError) -> Outcome:
        if error.status == 410:
            return Failed(f"the issue could not be written: {error_clause(error)}; turn issues on in the settings")
        return self.github.refusal_outcome("the issue could not be written", "issues: write", error)
