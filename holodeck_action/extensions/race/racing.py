"""Implements `race`: loads a suite, races its variants, and writes the results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import structs

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.extensions.race.leaderboard import console_lines, markdown_text
from holodeck_action.extensions.race.outcome import Limits, RaceOutcome, conclude_race
from holodeck_action.extensions.race.preparing import PreparedRace, prepare_race
from holodeck_action.extensions.race.running import (
    calls_models,
    claim_folders,
    planned_calls,
    run_variants,
    variant_folders,
    write_variants,
)
from holodeck_action.extensions.race.variants import check_variants, parse_axes, read_variants
from holodeck_action.record.disk import DISK
from holodeck_action.record.folder import Claims
from holodeck_action.record.serialization import to_json
from holodeck_action.reports.conclusion import Conclusion
from holodeck_action.reports.formats import write_reports
from holodeck_action.reports.page.run_columns import MOST_RUNS, RunColumn
from holodeck_action.reports.page.viewer import PAGE_FILE, PageView, render_page
from holodeck_action.run.caller import Caller
from holodeck_action.run.environments.extra_needs import NeededExtra
from holodeck_action.run.environments.extras import needed_extras
from holodeck_action.run.loading import load_one_suite
from holodeck_action.run.open_suites import closing, open_suites
from holodeck_action.run.options.request import flags_from
from holodeck_action.run.run import Run
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line

RACE_FILE, LEADERBOARD_FILE = "race.json", "leaderboard.md"
DEFAULT_FOLDER = Path("holodeck-race")


def race_variants(values: Mapping[str, Any], caller: Caller) -> int:
    """Race the variants of a suite; see `run_command`.

    Returns:
        The exit code: 0 if there is a leader, or all cases were answered; 1 if all variants that are left exceed a
        limit; 3 if values of these variants are unknown; 4 if the race ended early.
    """
    outcome, _ = run_command(values, caller)
    return ExitCode.PASSED if outcome is None else outcome.exit_code


def run_command(
    values: Mapping[str, Any], caller: Caller, install: Callable[[Sequence[NeededExtra]], None] = lambda needs: None
) -> tuple[RaceOutcome | None, GivenPath]:
    """Race the variants of a suite.

    Args:
        values: the command line's values by option.
        caller: environment, folder and streams of the command.
        install: installs the extras that a suite needs.

    Returns:
        The outcome (None if only the plan was requested), and the folder of the results.

    Raises:
        ConfigurationError: a file, an option, a variant or the suite cannot be used; nothing was run.
    """
    progress = caller.progress_display()
    caller = replace(caller, stderr=progress.stream)
    if values["vary"] and values["variants"] is not None:
        raise ConfigurationError(["--vary and --variants cannot be combined; leave out one of them"])
    file = values["variants"]
    variants = parse_axes(values["vary"]) if file is None else read_variants(file, caller.cwd)
    check_variants(variants)
    folder = values["output_dir"] or GivenPath(DEFAULT_FOLDER, caller.cwd)
    flags = flags_from({**values, "output_dir": folder, "suites": (values["suite"] or "agent.yaml",)})
    context = structs.replace(caller.suite_context(flags), install=install)
    with Claims(caller.disk or DISK) as claims:
        with progress.phase("loading the suite"):
            reason = "a race needs a single suite; give one path"
            loaded = load_one_suite(flags.suites[0], context, reason, grades=True)
            install(needed_extras(loaded.suite, loaded.environ, flags))
            race = prepare_race(loaded, variants, values["objective"])
        if flags.dry_run:
            _print_plan(race, caller)
            return None, folder
        limits = Limits(values["max_cost_per_case"], values["max_p95_ms"])
        with progress.phase(f"racing {len(variants)} variants"):
            return _race(race, folder, limits, claims, caller, cheapest=values["cheapest"]), folder


def _print_plan(race: PreparedRace, caller: Caller) -> None:
    suites = open_suites(race.to_open([None] * len(race.items)), siblings=True)
    with closing(suites):
        caller.stdout.writelines(f"{line}\n" for line in _plan(race, suites))
        caller.stdout.flush()


def _plan(race: PreparedRace, suites: Sequence[Run]) -> list[str]:
    """Return the lines of the plan, which counts the calls of all variants as if no variant were dropped."""
    trials = len(race.items) * sum(case.repeat for case in race.cases)
    cases = count_phrase(len(race.cases), "case")
    total = f"plan: race of {len(race.items)} variants for {race.objective}: {cases}, at most {trials:,} trials"
    return [*planned_calls(suites), f"{total}; variants that are dropped need fewer"]


def _race(
    race: PreparedRace,
    folder: GivenPath,
    limits: Limits,
    claims: Claims,
    caller: Caller,
    *,
    cheapest: bool,
) -> RaceOutcome:
    started, begun = datetime.now(UTC), time.monotonic()
    folders = variant_folders(race, folder)
    # Opened first, so that a race that cannot start creates no folder.
    suites = open_suites(race.to_open(folders), siblings=True)
    redact, place = suites[0].redactor.text, suites[0].display_folder
    with closing(suites):
        claim_folders((folder, *folders), (RACE_FILE, LEADERBOARD_FILE), claims, caller)
        if calls_models(suites):
            caller.stderr.writelines(f"{line}\n" for line in _plan(race, suites))
            caller.stderr.flush()
        done, journals = run_variants(race, suites, caller)
    outcome = conclude_race(
        *(race, done, [each.path.name for each in folders], limits),
        cheapest=cheapest,
        run=(started.isoformat(), 1000 * (time.monotonic() - begun)),
        redact=redact,
    )
    try:
        concluded = write_variants(folders, done, place, caller)
        write_outcome(outcome, concluded, folder, caller, html=race.items[0].flags.html)
    except OSError as error:
        caller.stderr.write(
            f"error: {folder}: results could not be written: {error.strerror}; --resume repeats no call\n"
        )
        return structs.replace(outcome, exit_code=outcome.exit_code or ExitCode.INCOMPLETE)
    caller.stdout.writelines(f"{line}\n" for line in console_lines(outcome))
    caller.stdout.flush()
    if done.stopped is None:
        for journal in journals:
            journal.remove()
    return outcome


def write_outcome(
    outcome: RaceOutcome, conclusions: Mapping[str, Conclusion], folder: GivenPath, caller: Caller, *, html: bool
) -> None:
    """Write race.json, the leaderboard and, if `html` is true, the page of the best variants into a folder.

    Raises:
        OSError: a file cannot be written.
    """
    together: dict[str, Callable[[], Iterable[bytes]]] = {
        RACE_FILE: lambda: [to_json(outcome, 1), b"\n"],
        LEADERBOARD_FILE: lambda: [markdown_text(outcome).encode("utf-8", "replace")],
    }
    if html:
        together[PAGE_FILE] = lambda: render_page(_view(outcome, conclusions, folder, caller))
    write_reports(folder, together, caller.note, caller.disk or DISK)


def _view(outcome: RaceOutcome, conclusions: Mapping[str, Conclusion], folder: GivenPath, caller: Caller) -> PageView:
    """Return the race's page, which shows the runs of as many of the best variants as fit on a page."""
    from holodeck_action.github.job import page_links

    best = outcome.variants[:MOST_RUNS]
    runs = [RunColumn(one_line(each.name, 200), conclusions[each.folder]) for each in best]
    shown, results = [runs[0].concluded], str(folder / best[0].folder)
    return PageView(shown, outcome.exit_code, results=results, links=page_links(caller.environ), runs=runs)
