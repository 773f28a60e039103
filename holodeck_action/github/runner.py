"""What a step tells the runner: commands in its log, outputs, and the job summary.

Commands are lines that the runner obeys (runner source, `ActionCommand.cs`); outputs and summary go through files
(`FileCommandManager.cs`).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from msgspec import Struct

from holodeck_action.decide.exit_codes import OUTCOMES
from holodeck_action.decide.verdict import (
    Counts,
)
from holodeck_action.github.annotations import Annotation, Level
from holodeck_action.github.channels import Channel, Published
from holodeck_action.record.disk import append

MESSAGE_LIMIT = 4096
"""Characters of an annotation that the runner keeps (`ExecutionContext._maxIssueMessageLength`)."""
PER_LEVEL = 10
"""Annotations of each level that the runner keeps of a step (`ExecutionContext._maxCountPerIssueType`)."""

_NAMES: dict[Level, str] = {"failure": "error", "warning": "warning", "notice": "notice"}
SUMMARY_LIMIT = 1024 * 1024
"""Bytes of a step's summary (`CreateStepSummaryCommand.AttachmentSizeLimit`): a larger one is not shown at all."""


def error_command(title: str, message: str) -> str:
    """Return the command that shows one error on the run's page."""
    return f"::error title={_property(title)}::{_data(message[:MESSAGE_LIMIT])}"


def annotation_commands(annotations: Sequence[Annotation], *, reserved: int) -> tuple[str, ...]:
    """Return the commands that annotate lines, where no check run can: at most `PER_LEVEL` of each level.

    Args:
        annotations: what to show, worst first; of more than fit the last command says how many are hidden.
        reserved: how many errors the step still needs for itself.
    """
    commands: list[str] = []
    for level, name in _NAMES.items():
        wanted = [annotation for annotation in annotations if annotation.level == level]
        room = max(0, PER_LEVEL - reserved) if level == "failure" else PER_LEVEL
        shown = wanted if len(wanted) <= room else wanted[: max(0, room - 1)]
        commands += [_annotation_command(name, annotation) for annotation in shown]
        hidden = len(wanted) - len(shown)
        if hidden and room:
            text = f"{hidden:,} more {'is' if hidden == 1 else 'are'} not shown here: see the job summary"
            commands.append(f"::{name} title={_property(f'{hidden:,} more')}::{_data(text)}")
    return tuple(commands)


def _annotation_command(name: str, annotation: Annotation) -> str:
    properties = {"file": annotation.path, "line": str(annotation.line)}
    if annotation.column is not None:
        properties["col"] = str(annotation.column)
    properties["title"] = annotation.title
    written = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{name} {written}::{_data(_kept(annotation.message))}"


def _kept(text: str) -> str:
    """Cut a message as the runner does, which counts UTF-16 code units, but never within a character."""
    return text.encode("utf-16-le", "replace")[: 2 * MESSAGE_LIMIT].decode("utf-16-le", "ignore")


def mask_commands(secrets: Iterable[str], shortest: int) -> tuple[str, ...]:
    """Return the commands that hide secrets in the step's log: one per line of each, in a fixed order.

    Args:
        secrets: values to hide. A log shows a value of several lines line by line, so each line is one secret.
        shortest: characters below which a line stands in too much innocent text to be hidden.
    """
    lines = {line.strip() for secret in secrets for line in secret.splitlines()}
    return tuple(f"::add-mask::{_data(line)}" for line in sorted(lines) if len(line) >= shortest)


def grouped(title: str, text: str) -> str:
    """Return lines folded below a title, which is one line. No line of the text may be a command."""
    return f"::group::{_data(title)}\n{text}::endgroup::\n"


class StoppedCommands:
    """A log in which nothing is a command, whatever it says."""

    def __init__(self, new_token: Callable[[], str]) -> None:
        self._new_token = new_token
        self._token = new_token()

    @property
    def stop(self) -> str:
        """The line that stops commands."""
        return f"::stop-commands::{self._token}\n"

    @property
    def resume(self) -> str:
        """The line that resumes them; text without a line end must not swallow it."""
        return f"\n::{self._token}::\n"

    def grouped(self, title: str, text: str) -> str:
        """Return lines folded below a title, which is one line: commands are stopped within them, too."""
        resume = self.resume
        # One that stood in the log is not used again.
        self._token = self._new_token()
        begun = f"{resume}::group::{_data(title)}\n{self.stop}{text}"
        resume = self.resume
        self._token = self._new_token()
        return f"{begun}{resume}::endgroup::\n{self.stop}"


@contextmanager
def commands_stopped(stream: TextIO, new_token: Callable[[], str]) -> Iterator[StoppedCommands]:
    """Write within which nothing is a command, whatever it says.

    Args:
        stream: where everything is written.
        new_token: makes what resumes commands; nobody who writes in between may know it.
    """
    stopped = StoppedCommands(new_token)
    stream.write(stopped.stop)
    stream.flush()
    try:
        yield stopped
    finally:
        stream.write(stopped.resume)
        stream.flush()


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


class ChannelError(Exception):
    """Something could not be published; the message is one sentence."""


def append_outputs(file: str | None, outputs: Mapping[str, str]) -> None:
    """Set the outputs of the step, value by name, in the file that `GITHUB_OUTPUT` names.

    Raises:
        ChannelError: there is no such file, or it cannot be written.
    """
    if not file:
        raise ChannelError("GITHUB_OUTPUT is not set: the step has no outputs")
    # Nobody can put the end of a value into a value: the delimiter is made after them.
    text = "".join(_heredoc(name, value, f"ghadelimiter_{secrets.token_hex(16)}") for name, value in outputs.items())
    _append(Path(file), text.encode(errors="replace"), "the step has no outputs")


def summary_room(file: str | None) -> int:
    """Return how many bytes the job summary still takes, the file that `GITHUB_STEP_SUMMARY` names."""
    try:
        return max(0, SUMMARY_LIMIT - os.stat(file).st_size) if file else 0
    except OSError:
        return SUMMARY_LIMIT


def append_summary(file: str | None, text: str) -> None:
    """Add Markdown of at most `summary_room` bytes to the job summary, the file that `GITHUB_STEP_SUMMARY` names.

    Raises:
        ChannelError: there is no such file, it cannot be written, or the runner would refuse it for its size.
    """
    if not file:
        raise ChannelError("GITHUB_STEP_SUMMARY is not set: there is no job summary")
    data = text.encode(errors="replace")
    if len(data) > summary_room(file):
        raise ChannelError(f"the job summary of {len(data):,} bytes is larger than GitHub shows: it was left out")
    _append(Path(file), data, "there is no job summary")


def _append(path: Path, data: bytes, consequence: str) -> None:
    try:
        append(path, data)
    except OSError as error:
        raise ChannelError(f"{path.name}: cannot be written: {error.strerror}: {consequence}") from error


def _heredoc(name: str, value: str, delimiter: str) -> str:
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


class SuiteResult(Struct, frozen=True):
    """What the outputs need to know of one suite.

    `pass_rate` is weighted, quarantined cases left out, None when no case was decided; `cost_usd` None when unknown.
    The paths are as the workflow sees them; None where a file was not written.
    """

    counts: Counts
    pass_rate: float | None
    cost_usd: float | None
    results: str | None
    report: str | None
    html: str | None


def step_outputs(
    exit_code: int,
    suites: Sequence[SuiteResult],
    verdict: str | None,
    channels: Sequence[Channel],
    html: str | None = None,
) -> dict[str, str]:
    """Return every output of the step; what is not known is empty.

    `html` is the page of several suites together.

    Counts and costs are sums over the suites, the pass rate is the lowest of theirs, paths stand one per line.
    """
    counts = [suite.counts for suite in suites]
    rates = [suite.pass_rate for suite in suites]
    costs = [suite.cost_usd for suite in suites]

    def total(*outcomes: str) -> str:
        return str(sum(getattr(count, outcome) for count in counts for outcome in outcomes)) if counts else ""

    known_rates = [rate for rate in rates if rate is not None]
    known_costs = [cost for cost in costs if cost is not None]
    return {
        "verdict": OUTCOMES[exit_code],
        "exit-code": str(exit_code),
        "passed": total("passed"),
        "failed": total("failed"),
        "errors": total("error"),
        "skipped": total("skipped"),
        "total": total("passed", "failed", "error", "skipped", "informational", "quarantined"),
        "pass-rate": repr(min(known_rates)) if known_rates and len(known_rates) == len(rates) else "",
        "cost-usd": f"{sum(known_costs):.6f}" if known_costs and len(known_costs) == len(costs) else "",
        "results-path": "\n".join(suite.results for suite in suites if suite.results),
        "report-path": "\n".join(suite.report for suite in suites if suite.report),
        "html-path": "\n".join(page for page in (html, *(suite.html for suite in suites)) if page),
        "verdict-path": verdict or "",
        **{f"{name}-url": _urls(channels, name) for name in ("comment", "check", "review")},
    }


def _urls(channels: Sequence[Channel], name: str) -> str:
    ended = [channel.outcome for channel in channels if channel.name == name]
    return "\n".join(outcome.url for outcome in ended if isinstance(outcome, Published) and outcome.url)
