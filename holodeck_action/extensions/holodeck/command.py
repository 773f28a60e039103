"""HoloDeck's command `test`: it runs `run`, `validate`, `view` or `optimize` with equivalent options."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.run.caller import Caller
from holodeck_action.run.options.command_help import HelpfulCommand, complete_file
from holodeck_action.run.options.flags import LAST_RESULTS, PATH
from holodeck_action.suite.configuration_errors import ConfigurationError

_ACTIONS = ("run", "validate", "view", "optimize")
_NUMBER_OPTIONS = {"timeout": "--turn-timeout", "parallel_test_cases": "--concurrency", "limit": "--limit"}
_VIEW_OPTIONS = ("host", "port", "no_browser")
_RUN_OPTIONS = ("file", "form", "verbose", *_NUMBER_OPTIONS)
_OPTIMIZE_OPTIONS = ("max_cycles", "numeric_max_trials", "seed", "output_dir")
_PORT = 8501
"""The port of HoloDeck's dashboard."""
_REFUSED = {
    "quiet": "--quiet is not supported: write holodeck-action run > report.txt, and read the exit code",
    "force_ingest": "--force-ingest is not supported: leave it out, each run reads the files of tools again",
    "numeric_patience": "--numeric-patience is not supported: leave it out, a race drops weak values early",
    **dict.fromkeys(
        ("textual_max_trials", "textual_patience"),
        "textual axes are not optimized: leave out --textual-max-trials and --textual-patience",
    ),
}
_MARKDOWN = (".md", ".markdown")


@click.command(cls=HelpfulCommand)
@click.argument(
    "action_and_suites", nargs=-1, metavar="[run|validate|view|optimize] [SUITE]", shell_complete=complete_file
)
@click.option("--output", "file", type=PATH, metavar="FILE", help="Also write the report here.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "markdown"]),
    help="Format of the report [default: by the suffix of FILE, else json].",
)
@click.option("-v", "--verbose", is_flag=True, help="Print every case with each metric and its tool calls.")
@click.option("--timeout", type=click.IntRange(1), help="Time limit for a turn of the agent, in seconds.")
@click.option("--parallel-test-cases", type=click.IntRange(1), help="Maximum number of concurrent conversations.")
@click.option("-n", "--limit", type=click.IntRange(1), help="Run only the first N cases.")
@click.option("--host", help="With view: only 127.0.0.1, which is the default.")
@click.option("--port", type=click.IntRange(0, 65535), help=f"With view: listen on this port [default: {_PORT}].")
@click.option("--no-browser", is_flag=True, help="With view: open no browser.")
@click.option("-q", "--quiet", is_flag=True, help="Refused, with what to write instead.")
@click.option("-f", "--force-ingest", is_flag=True, help="Refused, with what to write instead.")
@click.option("--max-cycles", help="With optimize: maximum number of cycles through the axes.")
@click.option("--numeric-max-trials", help="With optimize: maximum number of values of an axis.")
@click.option("--seed", is_flag=False, flag_value="", help="With optimize: seed of the cases that are held out.")
@click.option("-o", "--output-dir", help="With optimize: write the results here.")
@click.option("--numeric-patience", help="Refused, with what to write instead.")
@click.option("--textual-max-trials", help="Refused, with what to write instead.")
@click.option("--textual-patience", help="Refused, with what to write instead.")
@click.pass_context
def test(context: click.Context, /, action_and_suites: tuple[str, ...], **given: Any) -> int:
    """Run, validate, view or optimize SUITE (default: agent.yaml) with HoloDeck's command `test`.

    It prints the equivalent command of holodeck-action, and runs it.

    \b
    Examples:
      holodeck-action test agent.yaml --verbose --output report.md --format markdown
      holodeck-action test validate agent.yaml
      holodeck-action test view
      holodeck-action test optimize agent.yaml --max-cycles 2
    """
    caller: Caller = context.obj
    names_action = action_and_suites[:1] and action_and_suites[0] in _ACTIONS
    action, *suites = action_and_suites if names_action else ("run", *action_and_suites)
    problem = _problem(action, suites, given, caller)
    if problem is not None:
        raise click.UsageError(problem, context)
    arguments = _arguments(action, suites, given)
    earlier = _kept_run(caller)
    code = _run_command(context, action, arguments)
    if given["file"] is None or code == ExitCode.CONFIGURATION:
        return code
    if _kept_run(caller) in (None, earlier):
        caller.stderr.write(f"error: {given['file']}: not written, since the run's results could not be kept\n")
        return code or ExitCode.INCOMPLETE
    form = given["form"] or ("markdown" if given["file"].path.suffix in _MARKDOWN else "json")
    return _run_command(context, "report", ["--format", form, "-o", str(given["file"])]) or code


def _kept_run(caller: Caller) -> tuple[int, int] | None:
    """Return inode and modification time of the last run's results file; None if there is no such file."""
    try:
        found = os.stat(caller.cwd / LAST_RESULTS)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _problem(action: str, suites: list[str], options: Mapping[str, Any], caller: Caller) -> str | None:
    """Return why the command cannot be run, with a remedy; None if it can be run."""
    for name, why in _REFUSED.items():
        if options[name]:
            return why
    if action == "view" and options["seed"] == "":
        return "--seed is not supported: write holodeck-action run, then holodeck-action view"
    useful = {"run": _RUN_OPTIONS, "view": _VIEW_OPTIONS, "optimize": _OPTIMIZE_OPTIONS}.get(action, ())
    useless = {*_RUN_OPTIONS, *_VIEW_OPTIONS, *_OPTIMIZE_OPTIONS} - {*useful}
    for option in test.params:
        if option.name in useless and options[option.name] not in (None, False):
            return f"{option.opts[-1]} has no effect on {action}; leave it out"
    if len(suites) > 1:
        return "test takes one SUITE: write holodeck-action run for several"
    if options["form"] is not None and options["file"] is None:
        return "--format is the format of the file that --output names; give both"
    if options["host"] not in (None, "127.0.0.1", "localhost"):
        return "--host is not supported: view serves this machine alone, so leave it out"
    if action == "view" and suites and (caller.cwd / suites[0]).parent != caller.cwd:
        return f"view shows the runs of the current folder: write cd {shlex.quote(str(Path(suites[0]).parent))} first"
    return None


def _arguments(action: str, suites: list[str], options: Mapping[str, Any]) -> list[str]:
    """Return the equivalent arguments of the command of holodeck-action."""
    if action == "view":
        port = _PORT if options["port"] is None else options["port"]
        return ["--port", str(port), *(["--no-browser"] if options["no_browser"] else [])]
    if action == "optimize":
        named = [(f"--{name.replace('_', '-')}", options[name]) for name in _OPTIMIZE_OPTIONS]
        return [*suites, *(word for name, value in named if value is not None for word in (name, value))]
    numbers = [word for name, ours in _NUMBER_OPTIONS.items() if options[name] for word in (ours, str(options[name]))]
    return [*suites, *numbers, *(["--verbose"] if options["verbose"] else [])]


def _run_command(context: click.Context, name: str, arguments: list[str]) -> int:
    """Print a command of the program as a note, run it, and return its exit code."""
    caller: Caller = context.obj
    program = context.find_root()
    assert isinstance(program.command, click.Group)
    command = program.command.get_command(program, name)
    if command is None:
        raise ConfigurationError([f"the command {name} is not installed; install holodeck-action with all its parts"])
    caller.stderr.write(caller.redact(f"note: this is holodeck-action {shlex.join([name, *arguments])}\n"))
    path = f"{program.command_path} {name}"
    code = command.main(arguments, prog_name=path, standalone_mode=False, obj=caller)
    return code if isinstance(code, int) else ExitCode.PASSED
