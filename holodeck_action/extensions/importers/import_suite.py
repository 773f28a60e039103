"""Implements `import`: writes a suite of another program as agent.yaml, with a report on each assertion."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.extensions.importers.conversion import Conversion, convert_in_process
from holodeck_action.extensions.importers.deepeval.recording import record_file
from holodeck_action.extensions.importers.import_report import (
    report_json,
    report_markdown,
    report_table,
    unmatched_rows,
)
from holodeck_action.extensions.importers.secret_places import secret_problems
from holodeck_action.record.disk import make_folder, write_atomically
from holodeck_action.run.caller import Caller
from holodeck_action.run.loading import require_permission
from holodeck_action.run.options.action_inputs import Flags
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import environment_secrets

_SECRET_HINTS = {"promptfoo": "write {{ env.NAME }} in its place"}
"""What to write instead of the value of a secret variable, by program."""


class ImportOptions(Struct, frozen=True):
    """The options of `import`.

    Attributes:
        program: `promptfoo`, `deepeval`, `evals` or `inspect`.
        file: the file to import.
        folder: the output folder; None to use the file's folder.
        report: file to write the import report to, as JSON if its name ends in `.json`, else as Markdown; None to write
            no file.
        allow_missing: whether assertions without a counterpart are accepted.
        flags: whether code of an unsafe fork may run.
        is_part: whether `init` imports, which prints the next steps after its own files.
    """

    program: str
    file: GivenPath
    folder: GivenPath | None
    report: GivenPath | None
    allow_missing: bool
    flags: Flags = Flags()
    is_part: bool = False


def import_suite(options: ImportOptions, caller: Caller) -> tuple[ExitCode, Sequence[GivenPath]]:
    """Write the imported suites and print the import report.

    Returns:
        Exit code 1 if an assertion or setting has no counterpart and `allow_missing` is not set, else 0; and the
        folders of the suites.

    Raises:
        ConfigurationError: the file cannot be converted, code of its checkout must run and may not, or a file to write
            contains a secret or already exists (nothing is written in these cases); or writing a file fails.
    """
    folder = options.folder or options.file.parent
    program, file = options.program, options.file
    conversion = Conversion.of(program, file, folder.path, caller, allow_missing=options.allow_missing)
    if program == "inspect" or (program == "deepeval" and file.path.suffix.lower() == ".py"):
        code = require_permission(caller.suite_context(options.flags).permission, (file.path.parent,))
        recorded = record_file(conversion.source(), caller.environ, code)
        conversion = replace(conversion, recorded=recorded)
    imported = convert_in_process(conversion, caller.environ)
    rows = imported.rows
    written = {folder / name: text for name, text in imported.files.items()}
    if options.report is not None:
        as_json = options.report.name.endswith(".json")
        written[options.report] = report_json(rows) if as_json else report_markdown(rows)
    clause = "already exists, and nothing was written; remove it, or choose another folder with -o"
    there = [f"{path}: {clause}" for path in written if os.path.lexists(path)]
    if there:
        raise ConfigurationError(there)
    hint = _SECRET_HINTS.get(program, "take it out of the file")
    held = secret_problems(written, conversion.source(), imported.read, hint, caller.environ)
    if held:
        raise ConfigurationError(held)
    for path, text in written.items():
        try:
            make_folder(path.parent)
            write_atomically(path.path, [text.encode()])
        except OSError as error:
            raise ConfigurationError(
                [f"{path}: cannot be written: {error.strerror}; choose a folder that you can write to"]
            ) from error
    hidden = Redactor(environment_secrets(caller.environ))
    lines = [*(f"wrote {path}\n" for path in written), "\n", report_table(hidden.value(rows))]
    suites = [folder / name for name in imported.folders]
    if not options.is_part:
        named = shlex.join(map(str, suites))
        commands = (f"  holodeck-action {command} {named}\n" for command in ("validate", "run"))
        workflow = "for a workflow on pull requests: holodeck-action init"
        lines += ["next:\n", *commands, *(f"{workflow} {shlex.quote(str(each))}\n" for each in suites)]
    caller.stdout.writelines(lines)
    lost = unmatched_rows(rows)
    if not lost or options.allow_missing:
        return ExitCode.PASSED, suites
    caller.stderr.write(
        f"{len(lost)} without an equivalent: the suite cannot pass until their graders (not imported: …) are "
        "replaced or removed; --allow-missing leaves comments instead\n"
    )
    return ExitCode.VIOLATED, suites
