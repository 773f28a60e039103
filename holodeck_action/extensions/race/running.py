"""Runs the variants of a race with a journal and a folder for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from holodeck_action.decide.written_results import write_results
from holodeck_action.extensions.race.contest import Finished, run_race
from holodeck_action.extensions.race.preparing import PreparedRace
from holodeck_action.record.disk import DISK
from holodeck_action.record.folder import Claims
from holodeck_action.reports.conclusion import Conclusion, conclude
from holodeck_action.reports.formats import JUNIT_FILE, REPORT_FILE, markdown_report, render, write_reports
from holodeck_action.run.caller import Caller
from holodeck_action.run.journal import Journal
from holodeck_action.run.loading import ensure_writable
from holodeck_action.run.open_suites import start_journals
from holodeck_action.run.plan import plan_lines
from holodeck_action.run.run import Run
from holodeck_action.run.signals import run_to_end
from holodeck_action.run.stages import UserOutput, enter_all, stages_of
from holodeck_action.suite.identity import slug
from holodeck_action.text.given_paths import GivenPath

Loop = Callable[[Coroutine[Any, Any, Finished]], Finished]


def claim_folders(folders: Sequence[GivenPath], stale: Sequence[str], claims: Claims, caller: Caller) -> None:
    """Create the folders of a race, lock them, and clear them of earlier results.

    The files `stale` in the first folder are deleted: those of an earlier race are of no use without its results.

    Raises:
        ConfigurationError: a folder cannot be used.
        FolderError: another run writes to a folder.
    """
    for each in folders:
        ensure_writable(each)
        claims.clear(each)
    for name in stale:
        (caller.disk or DISK).remove((folders[0] / name).path)


def variant_folders(race: PreparedRace, root: GivenPath) -> list[GivenPath]:
    """Return the folder of each variant's results, below `root`; none is created."""
    taken: set[str] = set()
    found = []
    for number, variant in enumerate(race.variants, start=1):
        # A file name must not hold a secret, such as one in the URL of a target.
        base = slug(race.items[number - 1].redactor.text(variant.name)) or f"variant-{number}"
        name = base if base not in (*taken, "previous", "base") else f"{base}-{number}"
        taken.add(name)
        found.append(root / name)
    return found


def calls_models(suites: Sequence[Run]) -> bool:
    """Return whether suites call models, so that the plan is printed first."""
    return any(ready.resources.wire is not None and ready.settings.calls.mode != "replay" for ready in suites)


def planned_calls(suites: Sequence[Run]) -> Iterator[str]:
    """Return the lines of the plan of suites, which counts the calls of all of them as if none were dropped."""
    # Variants with equal judges share their probes.
    return plan_lines([suites], [{}])


def run_variants(
    race: PreparedRace,
    suites: list[Run],
    caller: Caller,
    run: Loop = asyncio.run,
    remaining_s: float | None = None,
) -> tuple[Finished, list[Journal]]:
    """Run the variants of a race, and close them.

    Args:
        race: the race.
        suites: the variants, with their folders; those that run are taken from the list.
        caller: the command.
        run: runs a coroutine in an event loop.
        remaining_s: seconds left until the run deadline; None if all of its seconds are left.

    Returns:
        The results, and the closed journals, which may be removed when nothing is to be resumed.

    Raises:
        ConfigurationError: an existing journal cannot be replaced, or the objective cannot be used.
    """

    def note(*words: str) -> None:
        caller.note(redact("".join(words)))

    redact, stages = suites[0].redactor.text, stages_of([race.items[0].suite], suites[0].flags)
    for at, ready in enumerate(suites):
        suites[at] = start_journals(ready, caller.disk or DISK, partial(note, f"{ready.folder}: "))
    contenders = [*suites]
    try:
        with enter_all(stages, contenders[0].staged, UserOutput(note, caller.stderr)):
            suites.clear()
            done = run_to_end(run_race(race, contenders, caller.signals, note, remaining_s), run)
    finally:
        for ready in contenders:
            ready.close_journals()
    for notice in dict.fromkeys(notice for ready in contenders for notice in ready.notices):
        note(notice)
    return done, [ready.journal for ready in contenders if ready.journal is not None]


def write_variants(
    folders: Sequence[GivenPath], done: Finished, shown: str, caller: Caller
) -> Mapping[str, Conclusion]:
    """Write the results of each variant into its folder, and return the conclusions by name of the folder.

    `shown` is the path of the suite's folder relative to the working folder.

    Raises:
        OSError: results cannot be written.
    """
    disk = caller.disk or DISK
    concluded = {}
    for folder, record in zip(folders, done.records, strict=True):
        each = concluded[folder.path.name] = conclude(record, folder=shown)
        write_results(folder.path, each.record, each.verdict, disk)
        reports: dict[str, Callable[[], Iterable[bytes]]] = {
            REPORT_FILE: partial(_report_pieces, each, caller.note),
            JUNIT_FILE: partial(render, each.report, "junit"),
        }
        write_reports(folder, reports, caller.note, disk)
    return concluded


def _report_pieces(concluded: Conclusion, note: Callable[[str], None]) -> Iterable[bytes]:
    return [markdown_report(concluded.report, None, note).encode("utf-8", "replace")]
