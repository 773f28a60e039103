"""`--bless`: writes the results of the better of two agents to the file that later runs are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holodeck_action.record.base_results import make_base_results
from holodeck_action.record.disk import check_links, write_atomically
from holodeck_action.record.result_files import BaseResults
from holodeck_action.reports.conclusion import Conclusion
from holodeck_action.run.run import Run
from holodeck_action.run.ui import Ui
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath

if TYPE_CHECKING:
    from holodeck_action.decide.compare.winner import Winner


def check_blessing(file: GivenPath, suites: Sequence[Run]) -> None:
    """Check that the run has a single suite, and that the folder of the file of `--bless` exists.

    Raises:
        ConfigurationError: several suites are to run, the file's folder does not exist, or the path is a folder.
    """
    if len(suites) > 1:
        raise ConfigurationError(
            [f"--bless {file}: {len(suites)} suites are to run, but only one suite can be blessed; give one suite"]
        )
    if file.path.is_dir() or not file.path.parent.is_dir():
        raise ConfigurationError([f"--bless {file}: the folder does not exist; choose a file in an existing folder"])


def bless(file: GivenPath, conclusion: Conclusion, base: BaseResults | None, ui: Ui) -> bool:
    """Write the results of the better agent, and print its name. Write nothing if neither agent is better.

    Args:
        file: the file to write; it stays as it is if neither agent is better.
        conclusion: the run of the head.
        base: the results of the base; None if the base did not run.
        ui: the outputs of the run.

    Returns:
        False if the results could not be written.
    """
    found = _winner(conclusion, base)
    if found.side is None or base is None:
        ui.stdout.write(f"not blessed, {file} is unchanged: {found.reason}\n")
        return True
    recorded = conclusion.record.baseline
    assert recorded is not None
    assert recorded.base is not None
    content = make_base_results(conclusion.record).content if found.side == "head" else base.content
    name = "this run" if found.side == "head" else f"the base, {recorded.base.name},"
    try:
        check_links(file.parent)
        write_atomically(file.path, [content], disk=ui.disk)
    except OSError as error:
        ui.stderr.write(f"error: --bless {file}: cannot be written: {error.strerror}\n")
        return False
    ui.stdout.write(f"blessed: {file} has the results of {name} now: {found.reason}\n")
    return True


def _winner(conclusion: Conclusion, base: BaseResults | None) -> Winner:
    from holodeck_action.decide.compare.winner import Winner, find_winner

    comparison = conclusion.verdict.comparison
    stopped = conclusion.record.stopped or (base.results.record.stopped if base is not None else None)
    if stopped is not None:
        return Winner(None, f"the run stopped early: {stopped}")
    if conclusion.record.certain is not None:
        return Winner(None, "not all cases count, because the run stopped when its exit code was certain")
    if comparison is None:
        return Winner(None, "nothing was compared")
    return find_winner(comparison)
