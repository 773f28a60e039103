"""Somebody who follows docs/getting-started.md: makes its files, types its commands, and opens the pull request."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from holodeck_action.record.result_files import read_record
from tests.commands.project import Project
from tests.docs.pages import ROOT, blocks, typed
from tests.github.fake import FakeGitHub
from tests.github.life import only_comment
from tests.github.workflow import REPOSITORY, Start, Workflow

PAGE = ROOT / "docs" / "getting-started.md"
OF_THE_MACHINE = ("UV_", "PIP_", "SSL_", "LANG", "LC_")
"""How variables begin that say how this machine reaches the package index."""


_OF_UV = re.compile(r" ?(?:Downloading|Downloaded|Installed|Building|Built|Prepared|Resolved) ")
_VOLATILE = re.compile(
    r", \d+ minutes? earlier|median latency [^·]+· |(?<= in )\S+/environments\b|[\d.]+ m?s\b|\b[0-9a-f]{7,12}\b"
)


def of_the_machine() -> dict[str, str]:
    """Variables with which programs reach the package index."""
    return {name: value for name, value in os.environ.items() if name.startswith(OF_THE_MACHINE)}


def type_command(
    command: str, folder: Path, environ: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Type a command into a shell; its error output is in its output."""
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )


class Beginner:
    """A clone of an empty repository, and a shell in it."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder / "shop"
        self.origin = folder / "shop.git"
        self.environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder / "home"), **environ}
        (folder / "home").mkdir()
        for setting in ("user.name octo", "user.email octo@example.com", "init.defaultBranch main"):
            self.type(f"git config --global {setting}", folder)
        self.type(f"git init --quiet --bare {self.origin}", folder)
        self.type(f"git clone --quiet {self.origin} {self.folder}", folder)
        self.type("git commit --quiet --allow-empty --message Start && git push --quiet origin main")

    def type(self, command: str, folder: Path | None = None) -> str:
        """Type a command and return what it prints; it must succeed."""
        ended = type_command(command, folder or self.folder, self.environ, 300)
        assert ended.returncode == 0, f"{command}: {ended.stdout}"
        return ended.stdout

    def follow(self, remote: Remote) -> list[str]:
        """Make the files of the page and type its commands, from its top to its end; return these commands.

        All that a command or a job prints must be on the page.
        """
        done = []
        for block in blocks(PAGE):
            where = f"{PAGE.name}:{block.line}"
            if block.mark == "comment":
                assert _steady(_rendered(remote.comment)) == _steady(block.text), f"{where}: {remote.comment}"
            elif block.mark not in ("", "fragment", "norun"):
                (self.folder / block.mark).write_text(block.text, encoding="utf-8")
            elif block.language == "console":
                for each in typed(block):
                    if each.command == "git pull":
                        remote.merge()
                    printed = self.type(each.command)
                    if each.command.startswith("git push"):
                        remote.evaluate()
                    # The page does not show what Docker prints.
                    if not each.command.startswith(("git ", "docker ")):
                        assert _steady(printed) == _steady(each.shown), f"{where}: {printed}"
                    done.append(each.command)
        return done

    def check_last_run(self) -> None:
        """Check that the last run has seen what the agent did."""
        record = read_record(self.folder / ".holodeck/last/results.json")
        [call] = record.cases[1].trials[0].turns[0].tool_invocations or ()
        assert (call.name, call.args) == ("find_order", {"order": "A-17"})


class Remote:
    """The repository on GitHub. Whoever pushes a branch opens its pull request, and the workflow evaluates it."""

    def __init__(self, hub: FakeGitHub, beginner: Beginner, start: Start, **variables: str) -> None:
        """Create the repository.

        Args:
            hub: where jobs report.
            beginner: who pushes.
            start: what runs the step.
            variables: of the runner.
        """
        self._beginner, self._variables = beginner, variables
        self._repository = hub.add_repository(REPOSITORY)
        self._git = self._repository.git
        self._git.refs["refs/heads/main"] = self._git.commit({"README": ""})
        self._folder = beginner.folder.with_name("checkout")
        self._workflow = Workflow(hub, Project(self._folder), start)
        self._branch = ""
        self._pull = 6
        self.comment = ""
        self.checks: list[Any] = []

    def evaluate(self) -> None:
        """Evaluate the branch that was pushed, in its pull request."""
        branch = self._beginner.type("git branch --show-current").strip()
        sha = self._git.commit({"head": str(len(self._git.commits))}, self._git.refs["refs/heads/main"])
        if branch == self._branch:
            self._repository.push(self._pull, head_sha=sha)
        else:
            self._branch, self._pull = branch, self._pull + 1
            self._repository.add_pull(self._pull, head_sha=sha, branch=branch)
        payload = {"number": self._pull, "pull_request.number": self._pull, "pull_request.head.sha": sha}
        code, verdict = self._job("pull_request", sha, payload, GITHUB_REF=f"refs/pull/{self._pull}/merge")
        [check] = self._repository.check_runs(sha)
        assert (verdict, check["conclusion"]) in (("passed", "success"), ("failed", "failure"))
        assert code == (0 if verdict == "passed" else 1)
        self.checks.append(check)
        self.comment = only_comment(self._repository, self._pull)

    def merge(self) -> None:
        """Merge the pull request, and evaluate main."""
        self._beginner.type(f"git push --quiet origin {self._branch}:main")
        before = self._git.refs["refs/heads/main"]
        sha = self._git.commit({"main": str(len(self._git.commits))}, before)
        self._git.refs["refs/heads/main"] = sha
        payload = {"before": before, "after": sha}
        assert self._job("push", sha, payload, GITHUB_REF="refs/heads/main", GITHUB_SHA=sha) == (0, "passed")
        output = self._folder / "holodeck-results"
        files = {str(path.relative_to(output)): path.read_bytes() for path in output.rglob("*") if path.is_file()}
        self._repository.actions.upload(self._repository.actions.add_run(sha), files, "holodeck-results")

    def _job(self, event: str, sha: str, payload: Mapping[str, Any], **variables: str) -> tuple[int, str]:
        """Run the job of the pushed workflow and return its exit code and verdict."""
        shutil.rmtree(self._folder, ignore_errors=True)
        branch = "main" if event == "push" else self._branch
        self._beginner.type(f"git clone --quiet --branch {branch} {self._beginner.origin} {self._folder}")
        shutil.rmtree(self._folder / ".git")
        document = yaml.safe_load((self._folder / ".github/workflows/evaluate.yml").read_text(encoding="utf-8"))
        [job] = document["jobs"].values()
        [step] = [step for step in job["steps"] if step["uses"] == "holodeck-action/holodeck-action@v1"]
        secrets = {f"${{{{ secrets.{name} }}}}": value for name, value in self._beginner.environ.items()}
        permissions = {name.replace("-", "_"): level for name, level in job["permissions"].items()}
        given = {name: secrets[value] for name, value in step.get("env", {}).items()} | self._variables | variables
        inputs = step["with"] | {"require-publish": "true"}
        ended = self._workflow.job(event, inputs, payload=payload, checkout=sha, permissions=permissions, **given)
        return ended.code, ended.outputs["verdict"]


def _rendered(comment: str) -> str:
    """Return the texts that GitHub shows of a comment whose parts are folded."""
    folded = re.sub(r"<details>\s*<summary>(.*?)</summary>.*?</details>", r"▸ \1", comment, flags=re.DOTALL)
    plain = re.sub(r"<!--.*?-->\n*|\[!\w+\]|(?m:^>) ?|</?(?:b|sub)>|[*`\\]", "", folded, flags=re.DOTALL)
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", re.sub("</?del>", "~", plain).replace("<br>", "\n")).strip()


_SLOW = re.compile(r"\[0/\d+\] no case is finished yet$")
"""Matches what a run says whose first case takes seconds, as on a slow machine."""


def _steady(printed: str) -> str:
    """Return lines without those of uv and of slow runs, times, hashes and folders, and with the progress in order."""
    lines = [line for line in printed.strip().splitlines() if not _OF_UV.match(line) and not _SLOW.match(line)]
    lines = [_VOLATILE.sub("", line) for line in lines]
    progress = sorted(re.sub(r"\d+", "1", line, count=1) for line in lines if line.startswith("["))
    return "\n".join(progress + [line for line in lines if not line.startswith("[")])
