"""Plays the story of examples/repository, and compares each outcome with the expected one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.tour.checkout import Checkout
from scripts.tour.jobs import Done, Jobs, Occasion, copy_output
from scripts.tour.model import ScriptedModel
from scripts.tour.nights import write_night
from scripts.tour.story import Desk, Run, Step
from tests.github.fake import FakeGitHub
from tests.github.life import ours
from tests.github.workflow import REPOSITORY, Start, process
from tests.llm.models import FakeModels

EXAMPLE = Path(__file__).parents[2] / "examples" / "repository"
KEY = "sk-the-tour-has-no-key"


@dataclass(frozen=True)
class Played:
    """A run or command as it ended.

    Attributes:
        run: the run of the story.
        code: the exit code.
        said: the job summary, or the output of a command.
        comment: the comment on the pull request, as Markdown; empty if there is none.
        annotations: the annotations of the check run.
        folder: the folder with what was written, below that of the tour.
        problems: sentences on how it differs from the expected outcome.
    """

    run: Run | Desk
    code: int
    said: str
    comment: str
    annotations: Sequence[dict[str, Any]]
    folder: str
    problems: tuple[str, ...]


@dataclass(frozen=True)
class PlayedStep:
    """A step of the story; `patch` is the text of its commit."""

    step: Step
    patch: str
    number: int
    runs: tuple[Played, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """All differences from the expected outcomes."""
        return tuple(problem for run in self.runs for problem in run.problems)


def play(steps: Sequence[Step], output: Path, start: Start = process, example: Path = EXAMPLE) -> Iterator[PlayedStep]:
    """Play steps one by one.

    Args:
        steps: the story, from its beginning.
        output: the folder for what the runs write.
        start: how the step of the Action is started.
        example: the folder with the shop, its patches and the model's answers.
    """
    with tempfile.TemporaryDirectory() as name, FakeGitHub() as hub, FakeModels() as models:
        models.answer(ScriptedModel(example / "model.yaml"))
        folder = Path(name) / "shop"
        checkout = Checkout(folder, hub.add_repository(REPOSITORY))
        collector = Path(name) / "collector"
        secrets = {"secrets.OPENAI_API_KEY": KEY, "vars.TRACES": collector.as_uri()}
        jobs = Jobs(hub, folder, start, secrets, {"OPENAI_BASE_URL": models.openai_url})
        stage = Stage(checkout, jobs, output, example, collector)
        for number, step in enumerate(steps):
            yield stage.play(number, step)
        if hub.violations or models.violations:
            raise RuntimeError("\n".join(map(str, [*hub.violations, *models.violations])))


class Stage:
    """Where the steps are played, one after the other."""

    def __init__(self, checkout: Checkout, jobs: Jobs, output: Path, example: Path, collector: Path) -> None:
        self._checkout = checkout
        self._jobs = jobs
        self._output = output
        self._example = example
        self._traces = collector / "last-night.jsonl"
        self._comments: dict[int, dict[str, str]] = {}

    def play(self, number: int, step: Step) -> PlayedStep:
        """Commit the step's patch, if it has one, and play its runs."""
        head, text = "", ""
        if step.patch:
            file = self._example / "patches" / step.patch
            head, text = self._checkout.apply(file, step.branch), file.read_text(encoding="utf-8")
        elif number == 0:
            head = self._checkout.begin(self._example / "shop")
        played: list[Played] = []
        for at, run in enumerate(step.runs, start=1):
            folder = f"{number:02}-{at}"
            if isinstance(run, Run):
                played.append(self._run(run, head, folder))
                continue
            if not played or isinstance(played[-1].run, Run):
                self._sit_down(played)
            played.append(self._command(run, folder))
        return PlayedStep(step, text, self._checkout.number, tuple(played))

    def _sit_down(self, played: Sequence[Played]) -> None:
        """Check `main` out, with the artifacts of the runs so far and the last traces."""
        self._checkout.check_out("main")
        for each in played:
            if isinstance(each.run, Run) and each.run.traces:
                copy_output(self._output / each.folder, self._checkout.folder / "nights" / each.run.traces)
        if self._traces.exists():
            shutil.copyfile(self._traces, self._checkout.folder / "night.jsonl")

    def _run(self, run: Run, head: str, folder: str) -> Played:
        if run.traces:
            write_night(self._example / "nights.yaml", run.traces, self._traces)
        occasion = self._occasion(run, head)
        self._checkout.check_out(occasion.commit)
        try:
            done = self._jobs.run(run.workflow, occasion)
        except AssertionError as error:
            return Played(run, -1, "", "", (), folder, (f"the step broke a rule of the runner: {error}",))
        copy_output(done.output, self._output / folder)
        pull = run.event.startswith("pull_request")
        comments = ours(self._checkout.repository, self._checkout.number) if pull else []
        url = done.ended.outputs["comment-url"]
        comment = next((each["body"] for each in comments if each["html_url"] == url), "")
        sha = head if pull else occasion.commit
        annotations = [mark for check in self._checkout.repository.check_runs(sha) for mark in check["annotations"]]
        problems = [*self._compare(run, done, comment, annotations)]
        if pull:
            problems += self._compare_comments(run.workflow, url, len(comments))
        return Played(run, done.ended.code, done.ended.summary, comment, annotations, folder, tuple(problems))

    def _occasion(self, run: Run, head: str) -> Occasion:
        checkout = self._checkout
        if run.event.startswith("pull_request"):
            base, merged = checkout.commit("main"), checkout.repository.pulls[checkout.number].merge_sha or ""
            fields = {
                "number": checkout.number,
                "pull_request.number": checkout.number,
                "pull_request.head.sha": head,
                "pull_request.head.ref": checkout.branch,
                "pull_request.base.sha": base,
                "pull_request.labels": [{"name": name} for name in run.labels],
            }
            return Occasion(run.event, merged, f"refs/pull/{checkout.number}/merge", fields)
        fields = {}
        if run.event == "push":
            before, after = ("0" * 40, head) if checkout.number == 0 else checkout.merge()
            fields = {"before": before, "after": after, "ref": "refs/heads/main"}
        return Occasion(run.event, checkout.commit("main"), "refs/heads/main", fields)

    def _compare(self, run: Run, done: Done, comment: str, annotations: Sequence[dict[str, Any]]) -> Iterator[str]:
        """Yield how the outcome of a run differs from the expected one."""
        if done.ended.code != run.exit:
            yield f"exit code {done.ended.code}, expected {run.exit}"
        yield from missing(run.comment, comment, "the comment")
        yield from missing(run.summary, done.ended.summary, "the job summary")
        yield from (f'the comment has "{text}"' for text in run.without if text in comment)
        if run.annotations is None:
            return
        found = [(mark["path"], self._line(mark), mark["message"]) for mark in annotations]
        for mark in run.annotations:
            if not any(path == mark.file and mark.line in line and mark.says in text for path, line, text in found):
                yield f'no annotation "{mark.says}" on the line "{mark.line}" of {mark.file}'
        if len(found) != len(run.annotations):
            yield f"{len(found)} annotations, expected {len(run.annotations)}: {found}"

    def _compare_comments(self, workflow: str, url: str, count: int) -> Iterator[str]:
        """Yield a sentence if the pull request has not one comment of each workflow, always the same."""
        known = self._comments.setdefault(self._checkout.number, {})
        if url != known.setdefault(workflow, url):
            yield f"the comment is {url}, expected {known[workflow]}, updated"
        if count != len(known):
            yield f"{count} comments on the pull request, expected {len(known)}"

    def _line(self, mark: dict[str, Any]) -> str:
        lines = self._checkout.folder.joinpath(mark["path"]).read_text(encoding="utf-8").splitlines()
        return lines[int(mark["start_line"]) - 1]

    def _command(self, run: Desk, folder: str) -> Played:
        code, said = self._jobs.command(run.command)
        problems = [] if code == run.exit else [f"exit code {code}, expected {run.exit}"]
        problems += missing(run.prints, said, "the output")
        for name in run.writes:
            written = self._checkout.folder / name
            if written.exists():
                kept = self._output / folder / written.name
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_bytes(written.read_bytes())
            else:
                problems.append(f"{name} was not written")
        return Played(run, code, said, "", (), folder, tuple(problems))


def missing(texts: Sequence[str], whole: str, name: str) -> Iterator[str]:
    """Yield a sentence for each text that something lacks."""
    return (f'{name} does not have "{text}"' for text in texts if text not in whole)
