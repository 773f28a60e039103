"""The last run's results: kept where no folder is given for them, and found by commands that are given none."""

from __future__ import annotations

import os

from holodeck_action.record.disk import write_atomically
from holodeck_action.record.folder import Claims, combined_suites
from holodeck_action.record.result_files import RESULTS_FILE, results_place
from holodeck_action.record.stored_cases import RecordError
from holodeck_action.run.caller import Caller
from holodeck_action.run.loading import writable_folder
from holodeck_action.run.options.flags import LAST_RESULTS
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line

IGNORE_FILE = ".holodeck/.gitignore"
IGNORED = b"last/\n"
"""What it says: results are nothing to commit."""


def place_for_results(caller: Caller, claims: Claims) -> tuple[GivenPath | None, str]:
    """Return where a run that is given no output folder keeps its results, and a sentence that says so.

    The folder is None where nothing can be kept: a run needs none.
    """
    folder = GivenPath(LAST_RESULTS.parent, caller.cwd)
    try:
        writable_folder(folder)
        ignore = caller.cwd / IGNORE_FILE
        if not os.path.lexists(ignore):
            write_atomically(ignore, [IGNORED])
        claims.hold(folder)
    except (ConfigurationError, OSError) as error:
        return None, f"the results are not kept: {error}"
    return folder, f"the results are kept in {folder} until the next run; --output-dir keeps them elsewhere"


def results_or_last(given: GivenPath | None, caller: Caller) -> GivenPath:
    """Return the results file that is given, or else that of the last run.

    Raises:
        RecordError: nothing is given, and no run has left results of one suite.
    """
    if given is not None:
        return results_place(given)
    folder = GivenPath(LAST_RESULTS.parent, caller.cwd)
    kept = results_place(folder)
    if kept != folder:
        return kept
    several = combined_suites(folder)
    if several:
        places = ", ".join(str(folder / name / RESULTS_FILE) for name in several)
        raise RecordError(f"the last run was of several suites: give the results of one ({one_line(places, 400)})")
    raise RecordError(f"no results are given, and {folder} holds none: run a suite first, or give a results.json")
