"""Implements `import --prove`: promptfoo and this program grade the same recorded answers without calling a model."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.extensions.importers.conversion import Conversion, convert_in_process
from holodeck_action.extensions.importers.proof import verdict_table
from holodeck_action.record.disk import write_atomically
from holodeck_action.run.caller import Caller
from holodeck_action.run.loading import require_permission
from holodeck_action.run.options.action_inputs import Flags
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.foreign import ForeignError, read_file
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.json_values import parse_json
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import environment_secrets
from holodeck_action.workers.bounded_programs import ProgramError, run_program
from holodeck_action.workers.permission import CodeAllowed

SECONDS = 900.0
"""Time limit of each program, in seconds."""
_MOST_BYTES = 200_000_000
"""Size limit of a program's result file and of the file with answers, in bytes."""
_PASSED_VARIABLES = ("PATH", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT")
_OFFLINE = {
    **dict.fromkeys(("PROMPTFOO_DISABLE_TELEMETRY", "PROMPTFOO_DISABLE_UPDATE", "PROMPTFOO_DISABLE_SHARING"), "1"),
    **dict.fromkeys(("PROMPTFOO_DISABLE_REMOTE_GENERATION", "npm_config_offline", "NO_COLOR"), "1"),
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9"),
}
"""Environment variables that keep a program off the network if it respects them: the proxy address has no server."""


class ProofOptions(Struct, frozen=True):
    """The options of `import --prove`; `answers` is a file with further answers, one line of JSON each."""

    prove: bool
    program: str
    file: GivenPath
    answers: GivenPath | None
    flags: Flags


def prove_import(options: ProofOptions, caller: Caller) -> int:
    """Print the verdicts of both programs for each pair of an assertion and an answer.

    Returns:
        Exit code 1 if the verdicts of any pair differ, else 0.

    Raises:
        ConfigurationError: promptfoo is not installed, code of the checkout must not run, there is no recorded
            answer, or a program fails.
    """
    if not options.prove:
        raise ConfigurationError(["--answers needs --prove"])
    if options.program != "promptfoo":
        raise ConfigurationError(
            [f"--prove compares only with promptfoo, not with {options.program}; leave out --prove"]
        )
    code = require_permission(caller.suite_context(options.flags).permission, (caller.cwd,))
    program = _find_promptfoo(options.file.path, caller)
    answers = [] if options.answers is None else _read_answers(options.answers)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(os.path.realpath(name))
        ours = folder / "ours"
        conversion = Conversion.of("promptfoo", options.file, ours, caller, allow_missing=False)
        proof = convert_in_process(replace(conversion, answers=answers), caller.environ).proof
        assert proof is not None
        for file, text in proof.files.items():
            _write(ours / file, text)
        _write(folder / "promptfooconfig.json", proof.promptfoo_config)
        environ = {key: caller.environ[key] for key in _PASSED_VARIABLES if key in caller.environ}
        environ |= {**_OFFLINE, "HOME": os.fspath(folder), "PROMPTFOO_CONFIG_DIR": os.fspath(folder / "settings")}
        theirs = _run_promptfoo(program, folder, options.file.path.parent, environ, code)
        own = _run_suite(folder, environ, code)
    lost = [pair.name for pair in proof.pairs if pair.name not in theirs or pair.name not in own]
    if lost:
        raise ConfigurationError([f"{options.file}: {len(lost)} pairs have no verdict in one of the programs"])
    table, differing = verdict_table(proof, theirs, own)
    caller.stdout.write(Redactor(environment_secrets(caller.environ)).text(table))
    return ExitCode.VIOLATED if differing else ExitCode.PASSED


def _find_promptfoo(file: Path, caller: Caller) -> Path:
    """Return the path of promptfoo: in the nearest `node_modules` above the configuration, else on the PATH."""
    for folder in file.parents:
        installed = folder / "node_modules" / ".bin" / "promptfoo"
        if os.access(installed, os.X_OK):
            return installed
        if (folder / ".git").exists():
            break
    found = shutil.which("promptfoo", path=caller.environ.get("PATH"))
    if found is None:
        raise ConfigurationError(
            ["--prove needs promptfoo, which is not installed: run `npm install promptfoo`; nothing is downloaded here"]
        )
    return Path(found)


def _read_answers(path: GivenPath) -> list[str]:
    try:
        lines = read_file(path.path, _MOST_BYTES).text().split("\n")
    except (OSError, ForeignError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it {error}"
        raise ConfigurationError([f"{path}: cannot be read: {reason}"]) from None
    found: list[str] = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                answer = parse_json(line)
            except ValueError:
                answer = None
            if isinstance(answer, dict):
                answer = answer.get("response")
            if not isinstance(answer, str):
                wanted = 'expected: a text as JSON, or {"response": text}'
                raise ConfigurationError([f"{path}:{number}: is not an answer ({wanted})"])
            found.append(answer)
    return found


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, [text.encode()])


def _run_program(
    program: str, arguments: list[str], environ: Mapping[str, str], code: CodeAllowed, folder: Path
) -> None:
    try:
        run_program(arguments, environ, code=code, timeout_s=SECONDS, max_bytes=_MOST_BYTES, folder=folder)
    except ProgramError as error:
        raise ConfigurationError([f"{program} {error}"]) from None
    except OSError as error:
        raise ConfigurationError([f"{program} cannot be started: {error.strerror}"]) from None


def _read_result(program: str, path: Path) -> Any:
    try:
        return parse_json(read_file(path, _MOST_BYTES).text())
    except (OSError, ForeignError, ValueError):
        raise ConfigurationError([f"{program} gave no results; run it by hand to see why"]) from None


def _run_promptfoo(
    program: Path, config_folder: Path, cwd: Path, environ: Mapping[str, str], code: CodeAllowed
) -> dict[str, bool]:
    out = config_folder / "theirs.json"
    flags = ["--no-write", "--no-cache", "--no-table", "--no-progress-bar", "-o", os.fspath(out)]
    command = [os.fspath(program), "eval", "-c", os.fspath(config_folder / "promptfooconfig.json"), *flags]
    _run_program("promptfoo", command, environ, code, cwd)
    found = _read_result("promptfoo", out)
    try:
        return {str(each["testCase"]["description"]): each["success"] is True for each in found["results"]["results"]}
    except (KeyError, TypeError):
        raise ConfigurationError(["promptfoo gave results in an unknown form"]) from None


def _run_suite(folder: Path, environ: Mapping[str, str], code: CodeAllowed) -> dict[str, bool]:
    out = folder / "out"
    command = [sys.executable, "-m", "holodeck_action.cli", "run", os.fspath(folder / "ours")]
    _run_program("the suite", [*command, "--output-dir", os.fspath(out)], environ, code, folder)
    record, verdict = _read_result("the suite", out / "results.json"), _read_result("the suite", out / "verdict.json")
    names = {case["id"]: case["name"] for case in record["cases"]}
    # In promptfoo, a case passes if its only assertion has weight 0.
    return {names[case["id"]]: case["outcome"] in ("passed", "informational") for case in verdict["cases"]}
