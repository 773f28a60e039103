"""The URLs of the repository and the run, and links to them in Markdown.

Links only lead to the caller's repository and run. Paths in links are checked and percent-encoded.
"""

from __future__ import annotations

from urllib.parse import quote

from msgspec import Struct

from holodeck_action.reports.phrases import repository_path
from holodeck_action.suite.errors import SourceMark
from holodeck_action.text.code_spans import inline_code
from holodeck_action.text.lazy_patterns import lazy_pattern

_COMMIT = lazy_pattern(r"[0-9a-f]{40}([0-9a-f]{24})?")


def line_url(repository: str, commit: str, path: str, line: int) -> str:
    """Return the URL of a line of a file at a commit.

    Args:
        repository: URL of the repository, without a slash at the end.
        commit: hash of the commit; any other string gives a URL within the repository that does not exist.
        path: path of the file in the repository.
        line: number of the line, from 1.
    """
    return f"{repository}/blob/{quote(commit, safe='')}/{quote(path, safe='/')}#L{line}"


class LinkContext(Struct, frozen=True):
    """Trusted data for the links in a comment or check run, and the name of the comment.

    Attributes:
        server: URL of the server without a slash at the end, such as `https://github.com`.
        repository: `owner/name`.
        sha: the evaluated commit; None if it is unknown, so that there are no links to lines.
        run_url: URL of the workflow run; None outside a workflow.
        pages: whether the run wrote the viewer's page, which workflows upload as an artifact.
        comment_id: the job's `comment-id`, which names its comment; empty if the job gives none.
        check_fails: the job's `check-fail-on`; empty if it writes no check run.
    """

    server: str
    repository: str
    sha: str | None
    run_url: str | None
    pages: bool = False
    comment_id: str = ""
    check_fails: str = ""

    @property
    def run(self) -> str:
        """A link to the run; plain text outside a workflow."""
        return f"[the run]({self.run_url})" if self.run_url else "the run"

    @property
    def run_links(self) -> str:
        """Links to the run and, if the run wrote a page, to its artifacts."""
        return f"{self.run} · [all cases]({self.run_url}#artifacts)" if self.run_url and self.pages else self.run

    def commit(self, sha: str | None) -> str | None:
        """Return a link to a commit; None if the hash is invalid."""
        if sha is None or not _COMMIT.fullmatch(sha):
            return None
        return f"[`{sha[:7]}`]({self.server}/{self.repository}/commit/{sha})"

    def line(self, path: str, line: int, text: str) -> str:
        """Return a link to a line of a file in the repository, or only its text if the commit is unknown.

        Args:
            path: path of the file in the repository.
            line: number of the line, from 1.
            text: trusted Markdown for the link's text.
        """
        if self.sha is None or not _COMMIT.fullmatch(self.sha):
            return text
        return f"[{text}]({line_url(f'{self.server}/{self.repository}', self.sha, path, line)})"

    def source(self, folder: str | None, mark: SourceMark, fallback: str, link_text: str | None = None) -> str:
        """Return a link to a position in a suite.

        Args:
            folder: folder of the suite in its repository; untrusted, since a fork writes the record.
            mark: the position.
            fallback: untrusted text for a position outside the repository.
            link_text: trusted Markdown for the link's text; None to show path and line.
        """
        path = repository_path(folder, mark)
        if path is None:
            return link_text or inline_code(fallback, 100)
        text = f"{path}, {mark.in_sheet}" if mark.sheet else f"{path}:{mark.line}"
        return self.line(path, mark.file_line, link_text or inline_code(text, 100))
