"""`publish`: publishes finished runs without running anything, such as a fork's run in a `workflow_run` job.

Code of a fork may have written the artifact with the record. So the record's size and schema are checked, its verdict
is decided again here, and reports use the templates of this repository. The pull request is taken from the event, never
from the record.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any

from msgspec.structs import replace

from holodeck_action.commands.output import Outcome
from holodeck_action.decide.decision import Terms
from holodeck_action.decide.exit_codes import ExitCode, worst_exit_code
from holodeck_action.github.channel_options import channel_options_from
from holodeck_action.github.channels import channel_lines
from holodeck_action.github.event import Destination, named_destination
from holodeck_action.github.opening import open_publisher
from holodeck_action.github.publisher import Findings
from holodeck_action.github.rest.payload import is_hash, is_repository
from holodeck_action.record.base_results import read_base
from holodeck_action.record.folder import PREVIOUS_FOLDER
from holodeck_action.record.parsed_record import RecordError
from holodeck_action.record.result_files import BASE_FOLDER, RESULTS_FILE, TABLES_FOLDER, read_record
from holodeck_action.record.results_search import results_name
from holodeck_action.reports.conclusion import Conclusion, conclude
from holodeck_action.reports.headline import verdict_line
from holodeck_action.run.caller import Caller
from holodeck_action.run.journal import JOURNAL_FILE
from holodeck_action.run.options.action_inputs import DECLARED, SHARED, Flags
from holodeck_action.run.options.input_values import anchor_paths, github_token, read_inputs
from holodeck_action.run.options.request import flags_from, template_of
from holodeck_action.run.past import stored_earlier_runs
from holodeck_action.seam import registry
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import environment_secrets

MOST_FILES = 100
"""Maximum number of suites in one publication."""
MOST_BYTES = 64 * 1024 * 1024
"""Maximum bytes of all results files together: about 20,000 cases with long answers."""
_MOST_ENTRIES = 10_000
"""Maximum number of files and folders to search."""
_MAX_SENTENCE = 1000
"""Maximum characters of a sentence on an artifact's content."""
_MAX_PATH = 300
"""Maximum characters of a path in messages."""


def publish_runs(paths: Sequence[str], values: Mapping[str, Any], caller: Caller) -> int:
    """Publish finished runs to the commit and pull request of the event or the command line, and print the result.

    Args:
        paths: results files, or folders to search for them.
        values: the command line's values by setting name, with `to`, `repository`, `pull_request` and `sha`; they
            override inputs.
        caller: gets a line for each channel on standard output, and notes about the user's template on standard error.

    Returns:
        The verdict's exit code, adjusted by `fail_on` and `require_publish`.

    Raises:
        ConfigurationError: an option or a results file cannot be used; nothing was published.
    """
    environ = caller.environ
    flags = _read_flags(values, caller)
    template = template_of(flags.template)
    channel_options = channel_options_from({**vars(flags), "github_token": github_token(environ)}, paths, environ)
    service = registry.services().get(values["to"])
    destination = _destination(flags, environ) if service is None else None
    open_channels = open_publisher if service is None else registry.resolve(service)
    publisher = open_channels(channel_options, environ, caller.pause, evaluates=False, destination=destination)
    try:
        done = read_runs(paths, caller.cwd, Redactor(environment_secrets(environ) | {channel_options.token}))
    except ConfigurationError as error:
        if service is not None:
            # The note of an earlier run must not stand for one that could not begin.
            publisher.finish(Findings(ExitCode.CONFIGURATION, (), error.lines, template, caller.note))
        raise
    publisher.begin([suite.report.provenance.commit for suite in done.suites] if destination is not None else None)
    reports = tuple(suite.report for suite in done.suites)
    channels = publisher.finish(Findings(done.exit_code, reports, (), template, caller.note)).channels
    lines = [verdict_line(suite.report) for suite in done.suites]
    lines += [f"not run: {', '.join(done.not_run)}"] if done.not_run else []
    lines += channel_lines(channels)
    caller.stdout.writelines(f"{one_line(line, 2000)}\n" for line in lines)
    return channel_options.process_exit_code(flags.process_exit_code(done.exit_code), channels)


def _read_flags(values: Mapping[str, Any], caller: Caller) -> Flags:
    """Return the settings of publishing, from the command line or else from the inputs."""
    names = {item.setting for item in DECLARED if item.of in ("publish", "destination") or item.name in SHARED}
    layers = (values, anchor_paths(read_inputs(caller.environ), caller.cwd))
    return flags_from(*({name: value for name, value in layer.items() if name in names} for layer in layers))


def _destination(flags: Flags, environ: Mapping[str, str]) -> Destination | None:
    """Return the commit and pull request that the caller names; None to use those of the event."""
    pull, sha = flags.pull_request, flags.sha
    repository = flags.repository or environ.get("GITHUB_REPOSITORY", "")
    if pull is None and sha is None:
        if flags.repository:
            raise ConfigurationError(["publish: --repository requires --pull-request or --sha"])
        if environ.get("GITHUB_EVENT_NAME", ""):
            return None
        raise ConfigurationError(["publish: outside of a workflow, give --pull-request or --sha"])
    if sha is not None and not is_hash(sha):
        raise ConfigurationError([f"--sha {one_line(sha, 80)!r} is not a full commit hash; give all 40 characters"])
    if not is_repository(repository):
        raise ConfigurationError(["publish: give --repository as OWNER/NAME, or set GITHUB_REPOSITORY"])
    return named_destination(repository, pull, sha)


def read_runs(paths: Sequence[str], start: Path, redactor: Redactor) -> Outcome:
    """Read finished runs and decide their verdicts again, by their own gates.

    Args:
        paths: results files, or folders to search for them.
        start: the folder that relative paths are relative to.
        redactor: masks secrets of this job, in case a record contains one.

    Returns:
        The finished run, as if these suites had run now. A folder with a journal but no results belongs to a suite
        whose run has not ended: the suite counts as not run, so that the run as a whole does not pass.

    Raises:
        ConfigurationError: a path contains no results, too many or too large results, a link, or a file that is not a
            record.
    """
    try:
        found = tuple(dict.fromkeys(file for path in paths for file in _results_files(start, path)))
    except OSError as error:
        raise ConfigurationError([f"publish: {error.filename}: cannot be read: {error.strerror}"]) from error
    files = tuple(file for file in found if file.name != JOURNAL_FILE)
    journals = tuple(file for file in found if file.name == JOURNAL_FILE)
    if len(files) > MOST_FILES:
        raise ConfigurationError(
            [f"publish: {len(files)} results files are too many; one step takes at most {MOST_FILES}"]
        )
    size = sum(file.lstat().st_size for file in files)
    if size > MOST_BYTES:
        raise ConfigurationError([f"publish: the results files hold {size:,} bytes, more than {MOST_BYTES:,}"])
    suites: list[Conclusion] = []
    problems: list[str] = []
    for file in files:
        try:
            suites.append(_judge_results(file, start, redactor))
        except RecordError as error:
            problems.append(f"publish: {one_line(redactor.text(str(error)), _MAX_SENTENCE)}")
    if problems:
        raise ConfigurationError(problems)
    not_run = tuple(one_line(redactor.text(os.path.relpath(file.parent, start)), _MAX_SENTENCE) for file in journals)
    codes = [suite.verdict.exit_code for suite in suites] + [ExitCode.STOPPED for _ in not_run]
    return Outcome(worst_exit_code(codes), tuple(suites), not_run)


def _judge_results(file: Path, start: Path, redactor: Redactor) -> Conclusion:
    given = GivenPath(Path(os.path.relpath(file, start)), start)
    try:
        stored = read_record(given)
        record, stored_base = redactor.value(stored), read_base(given, stored)
        base = None if stored_base is None else redactor.value(stored_base.record)
        earlier = redactor.value(stored_earlier_runs(given))
        concluded = conclude(
            record,
            Terms(base=base),
            folder=record.provenance.folder or "",
            earlier_runs=earlier,
        )
    except RecordError:
        raise
    except Exception as error:  # a record that fits the schema may still contradict itself
        raise RecordError(
            f"{given}: cannot be judged: {type(error).__name__}; use the results.json of a run"
        ) from error
    folder = given.parent if file.name in (RESULTS_FILE, TABLES_FOLDER) else None
    return replace(concluded, folder=folder)


def _results_files(start: Path, written: str) -> Iterator[Path]:
    """Yield the results files at a path, and the journals of suites without results.

    Links are refused, since links in an artifact could lead to private files of the runner.
    """
    path, written = start / written, one_line(written, _MAX_PATH)
    if not os.path.lexists(path):
        raise ConfigurationError(
            [f"publish: {written}: there is no such file or folder; download the artifact of the run into it first"]
        )
    below = (part for part in path.parents if part != start and part.is_relative_to(start))
    if any(part.is_symlink() for part in (path, *below)):
        raise ConfigurationError([f"publish: {written}: is a symbolic link or is inside one; name its target"])
    if not path.is_dir() or path.name == TABLES_FOLDER:
        if path.name == JOURNAL_FILE:
            raise ConfigurationError([f"publish: {written}: is a journal, not a {RESULTS_FILE}; the run has not ended"])
        yield _regular_file(path, written)
        return
    found = entries = 0
    for folder, folders, names in os.walk(path, onerror=_raise_error):
        # Results of an earlier run are stale now, and a base is not the result of this run.
        folders[:] = sorted(name for name in folders if name not in (PREVIOUS_FOLDER, BASE_FOLDER))
        entries += len(folders) + len(names)
        if entries > _MOST_ENTRIES:
            raise ConfigurationError(
                [f"publish: {written}: holds more than {_MOST_ENTRIES:,} files; name the results.json"]
            )
        results = results_name(folders, names)
        folders[:] = [each for each in folders if each != TABLES_FOLDER]
        if results is not None:
            found += 1
            yield _regular_file(Path(folder) / results, written)
        elif JOURNAL_FILE in names:
            yield Path(folder) / JOURNAL_FILE
    if not found:
        raise ConfigurationError(
            [f"publish: {written}: holds no {RESULTS_FILE}; upload the output folder of the run as the artifact"]
        )


def _raise_error(error: OSError) -> None:
    # A skipped folder could be that of a failing suite.
    raise error


def _regular_file(file: Path, path: str) -> Path:
    kind = file.lstat().st_mode
    if not S_ISREG(kind) and not (file.name == TABLES_FOLDER and S_ISDIR(kind)):
        raise ConfigurationError([f"publish: {path}: {file.name} is not a regular file"])
    return file
