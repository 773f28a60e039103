"""The history of a run: read before anything runs, and added to when all suites are done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from holodeck_action.github.job import Job
from holodeck_action.results.conclusion import Conclusion
from holodeck_action.results.disk import Disk
from holodeck_action.results.history import HistoryLine, HistoryLines, history_line, suite_of
from holodeck_action.results.history_store import HistoryEntry, HistoryError, HistoryFolder, HistoryStore
from holodeck_action.results.record import Record
from holodeck_action.results.result_files import results_content
from holodeck_action.text.given_paths import GivenPath


@dataclass(frozen=True, slots=True)
class OpenHistory:
    """A history as it was before the run.

    Attributes:
        store: where it is.
        lines: what it holds.
        commit: the only one whose runs are added; None for all. Pull requests and other branches add nothing.
        adds: whether runs are added at all.
    """

    store: HistoryStore
    lines: HistoryLines
    commit: str | None
    adds: bool

    def earlier(self, record: Record) -> tuple[HistoryLine, ...]:
        """Return the earlier runs of a record's suite, oldest first."""
        return self.lines.of(suite_of(record))

    def add(self, runs: Sequence[Conclusion], note: Callable[[str], None]) -> None:
        """Add runs; what cannot be added is noted in a sentence and changes no verdict."""
        if not self.adds:
            return
        try:
            self.store.append(list(self._entries(runs, note)))
        except HistoryError as error:
            note(f"the run was not added to the history: {error}")

    def _entries(self, runs: Sequence[Conclusion], note: Callable[[str], None]) -> Iterator[HistoryEntry]:
        for run in runs:
            commit = run.record.provenance.commit
            if self.commit is not None and commit != self.commit:
                note(
                    f"{suite_of(run.record)} was not added to the history: commit {str(commit)[:12]} was evaluated, "
                    f"and the workflow runs for {self.commit[:12]}"
                )
                continue
            line = history_line(run.record, run.verdict)
            yield HistoryEntry(line, results_content(run.record) if line.counts else None)


def open_history(folder: GivenPath | None, job: Job, disk: Disk) -> OpenHistory | None:
    """Read the history that is asked for.

    In a workflow only pushes to the default branch, and scheduled and dispatched runs of it, are added; what checked
    out another commit is not. Outside of one every run is.

    Args:
        folder: of the history; None for none.
        job: that the run is part of.
        disk: what it is written with.

    Raises:
        HistoryError: it cannot be read.
    """
    if folder is None:
        return None
    store = HistoryFolder(folder, job.pause, disk)
    in_workflow = bool(job.environ.get("GITHUB_EVENT_NAME", "").strip())
    commit = job.environ.get("GITHUB_SHA", "").strip() or None
    adds = not in_workflow or job.base.own
    return OpenHistory(store, store.read(), commit if in_workflow else None, adds)
