"""`--bless`: the results of the better of two agents become the file that later runs are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holodeck_action.commands.output import Output
from holodeck_action.record.base_results import results_of
from holodeck_action.record.disk import write_atomically
from holodeck_action.record.result_files import BaseResults
from holodeck_action.reports.conclusion import Conclusion
from holodeck_action.run.preflight import Prepared
from holodeck_action.run.request import Request
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath

if TYPE_CHECKING:
    from holodeck_action.decide.compare.winner import Winner


def check_blessing(prepared: Sequence[Prepared], request: Request) -> None:
    """Make sure that there can be one winner, and that its results can be written.

    Raises:
        ConfigurationError: there cannot.
    """
    file = request.bless
    if file is None or request.dry_run:
        return
    if len(prepared) > 1:
        raise ConfigurationError([f"--bless {file}: {len(prepared)} suites are run, and one has a winner; name that"])
    if file.path.is_dir() or not file.path.parent.is_dir():
        raise ConfigurationError([f"--bless {file}: give a file in a folder that exists"])


def bless(file: GivenPath, concluded: Conclusion, base: BaseResults | None, output: Output) -> bool:
    """Write the results of the better agent, if there is one, and say which it is.

    Args:
        file: where they go; what stands there is kept where neither is better.
        concluded: the run of the head.
        base: the results of the base; None where it did not run.
        output: where the run writes.

    Returns:
        Whether what was to be written is.
    """
    found = _winner(concluded, base)
    if found.side is None or base is None:
        output.stdout.write(f"not blessed, and {file} is left as it is: {found.reason}\n")
        return True
    recorded = concluded.record.baseline
    assert recorded is not None
    assert recorded.base is not None
    content = results_of(concluded.record).content if found.side == "head" else base.content
    name = "this run" if found.side == "head" else f"the base, {recorded.base.name},"
    try:
        write_atomically(file.path, content, disk=output.disk)
    except OSError as error:
        output.stderr.write(f"error: --bless {file}: cannot be written: {error.strerror}\n")
        return False
    output.stdout.write(f"blessed: {file} has the results of {name} now: {found.reason}\n")
    return True


def _winner(concluded: Conclusion, base: BaseResults | None) -> Winner:
    from holodeck_action.decide.compare.winner import Winner, winner_of

    comparison = concluded.verdict.comparison
    stopped = concluded.record.stopped or (base.results.record.stopped if base is not None else None)
    if stopped is not None:
        return Winner(None, f"the run stopped early: {stopped}")
    if comparison is None:
        return Winner(None, "nothing was compared")
    return winner_of(comparison)
