"""The command `import`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holodeck_action.run.caller import Caller
from holodeck_action.run.options.command_help import HelpfulCommand
from holodeck_action.run.options.flags import PATH, settings

if TYPE_CHECKING:
    from holodeck_action.text.given_paths import GivenPath


@click.command(name="import", cls=HelpfulCommand)
@click.argument("program", type=click.Choice(["promptfoo", "deepeval", "evals", "inspect"]))
@click.argument("file", type=PATH)
@click.option("-o", "--output-dir", "folder", type=PATH, metavar="DIR", help="Write here [default: FILE's folder].")
@click.option(
    "--report",
    type=PATH,
    metavar="FILE",
    help="Write the import report here, too: as JSON if the name ends in .json, else as Markdown.",
)
@click.option(
    "--allow-missing",
    is_flag=True,
    help="Write a comment for everything that has no equivalent, and end with exit code 0.",
)
@click.option("--prove", is_flag=True, help="Write nothing; compare with promptfoo, which must be installed.")
@click.option(
    "--answers",
    type=PATH,
    metavar="FILE",
    help="With --prove: a file of further answers to grade, one JSON value on each line.",
)
@settings(
    "allow-unsafe-forks",
    help_texts={"allow-unsafe-forks": "Run a fork's code although the job has secrets (docs/security.md)."},
)
@click.pass_obj
def import_(
    caller: Caller, /, *, prove: bool, answers: GivenPath | None, allow_unsafe_forks: bool, **given: Any
) -> int:
    """Convert FILE, a suite of PROGRAM, to agent.yaml with its policy file and graders.

    PROGRAM evals: an evals.json of a skill, or the folder with the cases of `claude plugin eval`.

    Prints the outcome of every assertion. No existing file is changed. A test file of DeepEval and a file with tasks of
    Inspect are run, without keys and packages: nothing that they call answers. No other code is run.

    Exit code 0: everything was imported; 1: something has no equivalent; 2: FILE cannot be used. With --prove 0: both
    programs give equal verdicts on the recorded answers; 1: they differ; 2: they cannot be compared.

    \b
    Examples:
      holodeck-action import promptfoo promptfooconfig.yaml
      holodeck-action import promptfoo promptfooconfig.yaml --prove
      holodeck-action import deepeval tests/test_support.py -o evaluation
      holodeck-action import evals .claude/skills/refunds/evals/evals.json -o evaluation
    """
    from holodeck_action.extensions.importers.import_suite import ImportOptions, import_suite
    from holodeck_action.extensions.importers.prove import ProofOptions, prove_import
    from holodeck_action.run.options.action_inputs import Flags

    flags = Flags(allow_unsafe_forks=allow_unsafe_forks)
    if prove or answers:
        options = ProofOptions(prove=prove, answers=answers, program=given["program"], file=given["file"], flags=flags)
        return prove_import(options, caller)
    return import_suite(ImportOptions(**given, flags=flags), caller)[0]
