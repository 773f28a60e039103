"""Steps on the fake GitHub, run in this process: what they wait is written down and not waited."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tests.action.step import Ended
from tests.commands.project import Project
from tests.github.events import HEAD, MERGE
from tests.github.fake import FakeGitHub, Fault
from tests.github.fake.server import Call
from tests.github.workflow import BOT, REPOSITORY, TOKEN, InProcess, Workflow

ALL = {"review": "failures"}
"""Inputs with which everything is asked for: comment and check are by default."""

CHANNELS = ["check", "comment", "review"]

_ROW = re.compile(r"\| (check|comment|review) \| (.*) \|")
_IDENT = re.compile(r"\d{4,}")


class Scene:
    """Pull request 7 of octo/shop, whose diff shows all of agent.yaml, and its workflow."""

    def __init__(self, hub: FakeGitHub, project: Project) -> None:
        self.hub = hub
        self.project = project
        self.repository = hub.add_repository(REPOSITORY)
        self.start = InProcess()
        self.workflow = Workflow(hub, project, self.start)
        self.interest = ""
        self._kept: dict[str, dict[int, Any]] = {}

    def show_diff(self, file: str = "agent.yaml", first: int = 1, last: int | None = None) -> None:
        """Make lines of a file the diff of the pull request."""
        lines = self.project.folder.joinpath(file).read_text(encoding="utf-8").split("\n")[first - 1 : last]
        # GitHub cuts no patch at what only Python takes for a line's end.
        patch = f"@@ -{first},0 +{first},{len(lines)} @@\n" + "\n".join(f"+{line}" for line in lines)
        files = [{"filename": file, "status": "modified", "patch": patch}]
        self.repository.add_pull(
            7, head_sha=HEAD, head_repository=REPOSITORY, branch="topic", merge_sha=MERGE, files=files
        )

    def step(self, inputs: Mapping[str, str] = ALL, **options: Any) -> Ended:
        """Run the step; `start.waits` are this one's alone."""
        self.start.waits.clear()
        for file in (self.project.folder / "holodeck-results").glob("*"):
            file.unlink()
        return self.workflow.job(inputs=inputs, **options)

    def calls(self, run: Callable[[], Any]) -> list[Call]:
        """Return the requests that a run makes."""
        before = len(self.hub.requests)
        run()
        return self.hub.requests[before:]

    def keep(self) -> None:
        """Remember what stands on GitHub."""
        self._kept = {name: copy.deepcopy(getattr(self.repository, name)) for name in _KEPT}

    def restore(self) -> None:
        """Put back what stood there, and forget all faults."""
        self.hub.heal()
        for name, kept in self._kept.items():
            setattr(self.repository, name, copy.deepcopy(kept))

    def of_interest(self, found: Sequence[Place]) -> list[Place]:
        """Return the places whose path has what the scene is about."""
        return [place for place in found if re.search(self.interest, place.path)]

    def kept_checks(self) -> Iterator[Any]:
        """Yield the check runs that stood there."""
        yield from self._kept["all_check_runs"].values()

    def comments(self) -> list[dict[str, Any]]:
        """The workflow's comments."""
        return [item for item in self.repository.comments(7) if item["user"]["login"] == BOT]

    def texts(self) -> Iterator[str]:
        """Yield all texts that stand on GitHub."""
        yield from (item["body"] for item in self.repository.comments(7))
        yield from (item["body"] for item in self.repository.reviews(7))
        yield from (item["body"] for item in self.repository.review_comments(7))
        for run in self.repository.check_runs(HEAD):
            yield from (str(run["name"]), str(run["output"]), str(run["annotations"]))


_KEPT = ("all_comments", "all_reviews", "all_review_comments", "all_check_runs")


def rows(summary: str) -> dict[str, str]:
    """The job summary's row of each channel."""
    _, found, table = summary.rpartition("\n### Published\n")
    assert found, summary[-500:]
    pairs = [(match[1], match[2]) for match in map(_ROW.fullmatch, table.strip().splitlines()) if match]
    assert [name for name, _ in pairs] == CHANNELS, table
    return dict(pairs)


def is_published(row: str) -> bool:
    """Tell whether a row says that something stands on GitHub."""
    return not row.startswith(("❌", "⏭️"))


@dataclass(frozen=True)
class Place:
    """The nth request of its kind that a run makes; ids differ from run to run."""

    method: str
    path: str
    nth: int

    @property
    def pattern(self) -> str:
        """What finds the request's path, whatever the ids."""
        return "^" + _IDENT.sub(r"\\d+", re.escape(self.path)) + "$"

    def count(self, calls: Sequence[Call]) -> int:
        """Count the requests of this kind."""
        return sum(call.method == self.method and re.search(self.pattern, call.path) is not None for call in calls)

    def order(self, hub: FakeGitHub, fault: Fault) -> None:
        """Let a fault happen here; one that is for ever happens from the first request of the kind on."""
        if fault.times is not None and self.nth:
            # Nothing happens to the requests before.
            hub.fail(Fault(self.method, self.pattern, times=self.nth))
        hub.fail(replace(fault, method=self.method, path=self.pattern))


def places(calls: Sequence[Call], *, every: bool) -> list[Place]:
    """Return where faults can happen: at `every` request, or at the first of each kind."""
    count: Counter[tuple[str, str]] = Counter()
    found = []
    for call in calls:
        place = Place(call.method, call.path, 0)
        kind = (call.method, place.pattern)
        if every or not count[kind]:
            found.append(Place(call.method, call.path, count[kind]))
        count[kind] += 1
    return found


@contextmanager
def naming(what: object) -> Iterator[None]:
    """Say in a failure what the loop was at."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"with {what}")
        raise


def check_no_token(scene: Scene, ended: Ended) -> None:
    """Check that the token is nowhere but where the runner is told to hide it."""
    commands = [command.data for command in ended.log.commands if command.name != "add-mask"]
    shown = [ended.text, *commands, ended.summary, *ended.outputs.values(), *scene.texts()]
    assert not [text for text in shown if TOKEN in text]
    assert all(TOKEN not in str(call.body) + call.path + str(call.query) for call in scene.hub.requests)
