"""The repository of the tour: real commits made of patches, mirrored to the fake GitHub."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.github.fake import Repository

_FIRST = "2026-11-02T09:00:00+00:00"
_WHO = "Ada Hill"
_MAIL = "ada@hillside.example"
_MESSAGE = "Open the repository of the service desk"


@dataclass
class Checkout:
    """A checkout with all commits; `number` is the open pull request, or the last one that was merged."""

    folder: Path
    repository: Repository
    number: int = 0
    branch: str = ""
    _mirrored: set[str] = field(default_factory=set)

    def begin(self, shop: Path) -> str:
        """Commit the files of a folder as the first commit of `main`."""
        shutil.copytree(shop, self.folder, dirs_exist_ok=True)
        self.git("init", "--quiet", "--initial-branch", "main")
        self.git("remote", "add", "origin", "https://github.com/octo/shop")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", _MESSAGE)
        return self._move_main()

    def apply(self, patch: Path, branch: str) -> str:
        """Commit a patch to the branch of a pull request, which is opened if it is not; return the commit."""
        opened = branch == self.branch
        self.check_out("HEAD")
        self.git("checkout", "--quiet", *([branch] if opened else ["-b", branch, "main"]))
        self.git("am", "--quiet", "--committer-date-is-author-date", str(patch))
        head = self.commit()
        merged = self._merge_for_test(branch)
        if opened:
            self.repository.push(self.number, head_sha=head, files=self._diff(), merge_sha=merged)
        else:
            self.number += 1
            self.repository.add_pull(
                self.number,
                head_sha=head,
                branch=branch,
                merge_sha=merged,
                files=self._diff(),
                title=self.git("log", "-1", "--format=%s", head),
            )
        self.branch = branch
        return head

    def merge(self) -> tuple[str, str]:
        """Merge the pull request; return the commit of `main` before and after."""
        before = self.commit("main")
        self.git("checkout", "--quiet", "main")
        message = f"Merge pull request #{self.number} from octo/{self.branch}"
        self.git("merge", "--quiet", "--no-ff", "--message", message, self.branch, date=self._date(self.branch))
        self.repository.close(self.number)
        self.branch = ""
        return before, self._move_main()

    def check_out(self, commit: str) -> None:
        """Check a commit out into a clean folder, as actions/checkout does."""
        self.git("checkout", "--quiet", "--force", "--detach", commit)
        self.git("clean", "--quiet", "-ffdx")

    def commit(self, name: str = "HEAD") -> str:
        """Return the commit that a name stands for."""
        return self.git("rev-parse", f"{name}^{{commit}}")

    def git(self, *arguments: str, date: str = _FIRST) -> str:
        """Run git without the settings of this machine, with fixed names and dates.

        Raises:
            RuntimeError: git failed; the message has its output.
        """
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder.parent),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            **{f"GIT_{who}_NAME": _WHO for who in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{who}_EMAIL": _MAIL for who in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{who}_DATE": date for who in ("AUTHOR", "COMMITTER")},
        }
        command = ("git", *arguments)
        done = subprocess.run(command, cwd=self.folder, env=environ, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout.strip()

    def _date(self, name: str) -> str:
        return self.git("log", "-1", "--format=%cI", name)

    def _merge_for_test(self, branch: str) -> str:
        """Return the test merge of a branch, as GitHub makes it for each pull request."""
        self.git("checkout", "--quiet", "--detach", "main")
        message = f"Merge {self.commit(branch)} into {self.commit('main')}"
        self.git("merge", "--quiet", "--no-ff", "--message", message, branch, date=self._date(branch))
        merged = self.commit()
        self._mirror()
        return merged

    def _move_main(self) -> str:
        self._mirror()
        self.repository.git.refs["refs/heads/main"] = self.commit("main")
        return self.commit("main")

    def _mirror(self) -> None:
        """Let the fake GitHub know all commits up to the one that is checked out."""
        for line in self.git("rev-list", "--reverse", "--topo-order", "--parents", "HEAD").splitlines():
            sha, *parents = line.split()
            if sha not in self._mirrored:
                self.repository.git.commit({}, *parents, sha=sha)
                self._mirrored.add(sha)

    def _diff(self) -> list[dict[str, Any]]:
        """Return the diff of the test merge, which is checked out, in the shape of GitHub's API."""
        states = {"A": "added", "M": "modified", "D": "removed"}
        files = []
        for line in self.git("diff", "--no-renames", "--name-status", "HEAD^1", "HEAD").splitlines():
            state, name = line.split("\t")
            text = self.git("diff", "--no-renames", "HEAD^1", "HEAD", "--", name)
            files.append({"filename": name, "status": states[state], "patch": text[text.index("@@") :]})
        return files
