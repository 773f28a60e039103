"""Where a text is published, and the links that lead from it.

Links lead only to the repository and the run that the caller names; the path in one is checked and percent-encoded.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from msgspec import Struct

from holodeck_action.reports.phrases import repository_path
from holodeck_action.suite.errors import SourceMark
from holodeck_action.text.code_spans import inline_code

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


def line_address(repository: str, commit: str, path: str, line: int) -> str:
    """Return the address of a line of a file as it is at a commit.

    Args:
        repository: its address, without a slash at the end.
        commit: its hash; what is none gives an address in the repository that leads nowhere.
        path: of the file in the repository.
        line: its number, from 1.
    """
    return f"{repository}/blob/{quote(commit, safe='')}/{quote(path, safe='/')}#L{line}"


class Place(Struct, frozen=True):
    """Where a text is published: trusted facts that its links are made of.

    Attributes:
        server: such as `https://github.com`, without a slash at the end.
        repository: `owner/name`.
        sha: the commit it is about; None where it is not known, which leaves links to lines out.
        run_url: the workflow's run; None outside of one.
        pages: whether the run wrote the viewer's page, which its artifacts hold where the workflow uploads them.
    """

    server: str
    repository: str
    sha: str | None
    run_url: str | None
    pages: bool = False

    @property
    def run(self) -> str:
        """The run as a link, or in words."""
        return f"[the run]({self.run_url})" if self.run_url else "the run"

    @property
    def more(self) -> str:
        """The run, and where all of its cases can be read, as links."""
        return f"{self.run} · [all cases]({self.run_url}#artifacts)" if self.run_url and self.pages else self.run

    def commit(self, sha: str | None) -> str | None:
        """Return a commit as a link; None for what is no commit."""
        if sha is None or not _COMMIT.fullmatch(sha):
            return None
        return f"[`{sha[:7]}`]({self.server}/{self.repository}/commit/{sha})"

    def line(self, path: str, line: int, shown: str) -> str:
        """Return a link to a line of a file of the repository, or what would be shown where there can be none.

        Args:
            path: of the file in the repository.
            line: its number, from 1.
            shown: trusted Markdown that is to be the link.
        """
        if self.sha is None or not _COMMIT.fullmatch(self.sha):
            return shown
        return f"[{shown}]({line_address(f'{self.server}/{self.repository}', self.sha, path, line)})"

    def source(self, folder: str | None, mark: SourceMark, otherwise: str, shown: str | None = None) -> str:
        """Return a position in a suite as a link to its line.

        Args:
            folder: the suite's in its repository; it may be invented, as a fork's record is.
            mark: the position.
            otherwise: what to show of one that is not in the repository; untrusted.
            shown: trusted Markdown that is to be the link; None for path and line.
        """
        path = repository_path(folder, mark)
        if path is None:
            return shown or inline_code(otherwise, 100)
        return self.line(path, mark.line, shown or inline_code(f"{path}:{mark.line}", 100))
