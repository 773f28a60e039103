"""The default results folder: runs without an output folder write to it, and commands without RESULTS read from it."""

from __future__ import annotations

import os

from holodeck_action.record.disk import write_atomically
from holodeck_action.record.folder import Claims, combined_suites
from holodeck_action.record.parsed_record import RecordError
from holodeck_action.record.result_files import RESULTS_FILE, results_path
from holodeck_action.run.caller import Caller
from holodeck_action.run.loading import ensure_writable
from holodeck_action.run.options.flags import LAST_RESULTS
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line

IGNORE_FILE = LAST_RESULTS.parents[1] / ".gitignore"
IGNORED = f"{LAST_RESULTS.parent.name}/\n".encode()
"""Content of `IGNORE_FILE`, so that results are not committed."""


def choose_results_folder(caller: Caller, claims: Claims) -> tuple[GivenPath | None, str]:
    """Return the default folder for results, and a note about it.

    The folder is None if it cannot be written or another run uses it; the run then writes no results.
    """
    folder = GivenPath(LAST_RESULTS.parent, caller.cwd)
    try:
        ensure_writable(folder)
        ignore = caller.cwd / IGNORE_FILE
        if not os.path.lexists(ignore):
            write_atomically(ignore, [IGNORED])
        claims.claim(folder)
    except (ConfigurationError, OSError) as error:
        return None, f"the results are not kept: {error}"
    return folder, f"the results are kept in {folder} until the next run; --output-dir keeps them elsewhere"


def results_or_last(path: GivenPath | None, caller: Caller) -> GivenPath:
    """Return the given results file, or else the last run's.

    Raises:
        RecordError: no file is given, and the last run did not leave the results of exactly one suite.
    """
    if path is not None:
        return results_path(path)
    folder = GivenPath(LAST_RESULTS.parent, caller.cwd)
    kept = results_path(folder)
    if kept != folder:
        return kept
    several = combined_suites(folder)
    if several:
        places = ", ".join(str(folder / name / RESULTS_FILE) for name in several)
        raise RecordError(f"the last run evaluated several suites; give one suite's results ({one_line(places, 400)})")
    raise RecordError(f"no results were given and {folder} has none; run a suite first, or give a results.json")
