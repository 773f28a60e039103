"""Messages of a step to the runner: commands in its log, outputs, and the job summary.

Commands are lines that the runner executes (runner source, `ActionCommand.cs`); outputs and summary are written to
files (`FileCommandManager.cs`).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from holodeck_action.decide.exit_codes import OUTCOMES
from holodeck_action.github.annotations import Annotation, Level
from holodeck_action.github.channels import Channel, Published
from holodeck_action.record.disk import append

if TYPE_CHECKING:
    from holodeck_action.reports.report_views import Report

MESSAGE_LIMIT = 4096
"""Maximum characters of an annotation (`ExecutionContext._maxIssueMessageLength` of the runner)."""
MOST_PER_LEVEL = 10
"""Maximum number of annotations per step and level (`ExecutionContext._maxCountPerIssueType` of the runner)."""

_COMMAND_NAMES: dict[Level, str] = {"failure": "error", "warning": "warning", "notice": "notice"}
SUMMARY_LIMIT = 1024 * 1024
"""Maximum bytes of a step's summary (`CreateStepSummaryCommand.AttachmentSizeLimit`); GitHub does not show larger
summaries."""


def error_command(title: str, message: str) -> str:
    """Return the workflow command that shows an error on the run's page."""
    return f"::error title={_escape_property(title)}::{_escape_data(message[:MESSAGE_LIMIT])}"


def annotation_commands(annotations: Sequence[Annotation], *, reserved: int) -> tuple[str, ...]:
    """Return workflow commands that annotate lines if there is no check run: at most `MOST_PER_LEVEL` of each level.

    Args:
        annotations: the annotations, worst first. If a level has too many annotations, its last command reports how
            many are omitted.
        reserved: number of error annotations that are kept for the step's own errors.
    """
    commands: list[str] = []
    for level, name in _COMMAND_NAMES.items():
        wanted = [annotation for annotation in annotations if annotation.level == level]
        room = max(0, MOST_PER_LEVEL - reserved) if level == "failure" else MOST_PER_LEVEL
        shown = wanted if len(wanted) <= room else wanted[: max(0, room - 1)]
        commands += [_annotation_command(name, annotation) for annotation in shown]
        hidden = len(wanted) - len(shown)
        if hidden and room:
            text = f"{hidden:,} more {'is' if hidden == 1 else 'are'} not shown here: see the job summary"
            commands.append(f"::{name} title={_escape_property(f'{hidden:,} more')}::{_escape_data(text)}")
    return tuple(commands)


def _annotation_command(name: str, annotation: Annotation) -> str:
    properties = {"file": annotation.path, "line": str(annotation.line)}
    if annotation.column is not None:
        properties["col"] = str(annotation.column)
    properties["title"] = annotation.title
    written = ",".join(f"{key}={_escape_property(value)}" for key, value in properties.items())
    return f"::{name} {written}::{_escape_data(_cut_message(annotation.message))}"


def _cut_message(text: str) -> str:
    """Cut a message to `MESSAGE_LIMIT` UTF-16 code units, which the runner counts, but never within a character."""
    return text.encode("utf-16-le", "replace")[: 2 * MESSAGE_LIMIT].decode("utf-16-le", "ignore")


def mask_commands(secrets: Iterable[str], min_length: int) -> tuple[str, ...]:
    """Return the commands that mask secrets in the step's log: one for each line of each secret, sorted.

    Args:
        secrets: values to mask. A log shows a value of several lines line by line, so each line is one secret.
        min_length: minimum characters of a masked line, since shorter lines occur in ordinary text.
    """
    lines = {line.strip() for secret in secrets for line in secret.splitlines()}
    return tuple(f"::add-mask::{_escape_data(line)}" for line in sorted(lines) if len(line) >= min_length)


def fold_lines(title: str, text: str) -> str:
    """Return lines as a collapsible group with a one-line title; no line of `text` may be a workflow command."""
    return f"::group::{_escape_data(title)}\n{text}::endgroup::\n"


class StoppedCommands:
    """A log in which workflow commands are stopped, so that untrusted text cannot be executed as a command."""

    def __init__(self, new_token: Callable[[], str]) -> None:
        self._new_token = new_token
        self._token = new_token()

    @property
    def stop_line(self) -> str:
        """The line that stops commands."""
        return f"::stop-commands::{self._token}\n"

    @property
    def resume_line(self) -> str:
        """The line that resumes commands; it begins with a line break, as the text before it may lack one."""
        return f"\n::{self._token}::\n"

    def fold_lines(self, title: str, text: str) -> str:
        """Return lines as a collapsible group with a one-line title; commands are stopped within the group, too."""
        resume = self.resume_line
        # A token that was in the log is not used again.
        self._token = self._new_token()
        begun = f"{resume}::group::{_escape_data(title)}\n{self.stop_line}{text}"
        resume = self.resume_line
        self._token = self._new_token()
        return f"{begun}{resume}::endgroup::\n{self.stop_line}"


@contextmanager
def stop_commands(stream: TextIO, new_token: Callable[[], str]) -> Iterator[StoppedCommands]:
    """Within the block, stop the execution of workflow commands in a log.

    Args:
        stream: the log.
        new_token: returns a token that resumes commands; code that writes to the log must not know it.
    """
    stopped = StoppedCommands(new_token)
    stream.write(stopped.stop_line)
    stream.flush()
    try:
        yield stopped
    finally:
        stream.write(stopped.resume_line)
        stream.flush()


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")


class ChannelError(Exception):
    """Outputs or the job summary could not be written; the message is one sentence."""


def append_outputs(file: str | None, outputs: Mapping[str, str]) -> None:
    """Append the outputs of the step, given as values by name, to `file`, the path in `GITHUB_OUTPUT`.

    Raises:
        ChannelError: `file` is None or empty, or it cannot be written.
    """
    if not file:
        raise ChannelError("GITHUB_OUTPUT is not set: the step has no outputs")
    # A value cannot contain its delimiter, which is random and chosen after all values.
    text = "".join(_heredoc(name, value, f"ghadelimiter_{secrets.token_hex(16)}") for name, value in outputs.items())
    _append(Path(file), text.encode(errors="replace"), "the step has no outputs")


def summary_room(file: str | None) -> int:
    """Return the number of bytes that still fit into the job summary `file`; 0 if `file` is None or empty."""
    try:
        return max(0, SUMMARY_LIMIT - os.stat(file).st_size) if file else 0
    except OSError:
        return SUMMARY_LIMIT


def append_summary(file: str | None, text: str) -> None:
    """Append Markdown of at most `summary_room` bytes to the job summary, the file in `GITHUB_STEP_SUMMARY`.

    Raises:
        ChannelError: `file` is None or empty, it cannot be written, or the text is too large for the runner.
    """
    if not file:
        raise ChannelError("GITHUB_STEP_SUMMARY is not set: there is no job summary")
    data = text.encode(errors="replace")
    if len(data) > summary_room(file):
        raise ChannelError(f"the job summary of {len(data):,} bytes is larger than GitHub shows: it was left out")
    _append(Path(file), data, "there is no job summary")


def _append(path: Path, data: bytes, lost_output: str) -> None:
    try:
        append(path, data)
    except OSError as error:
        raise ChannelError(f"{path.name}: cannot be written: {error.strerror}: {lost_output}") from error


def _heredoc(name: str, value: str, delimiter: str) -> str:
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


def step_outputs(
    exit_code: int,
    reports: Sequence[Report],
    paths: Mapping[str, Sequence[str | None]],
    channels: Sequence[Channel],
) -> dict[str, str]:
    """Return every output of the step; unknown values are empty.

    With several suites, counts and costs are sums, the pass rate is the lowest of the suites' rates, and paths are
    written one per line.

    Args:
        exit_code: exit code of the run.
        reports: reports of the suites.
        paths: paths as the workflow sees them, by output; None for a file that was not written.
        channels: results of publishing, one for each channel.
    """
    counts = [report.counts for report in reports]
    rates = [report.pass_rate for report in reports]
    costs = [None if report.spend.unpriced else report.spend.cost_usd for report in reports]

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
        **{name: "\n".join(filter(None, found)) for name, found in paths.items()},
        **{f"{name}-url": _published_urls(channels, name) for name in ("comment", "check", "review")},
    }


def _published_urls(channels: Sequence[Channel], name: str) -> str:
    ended = [channel.outcome for channel in channels if channel.name == name]
    return "\n".join(outcome.url for outcome in ended if isinstance(outcome, Published) and outcome.url)
