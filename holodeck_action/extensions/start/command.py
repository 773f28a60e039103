"""The command `init`."""

from __future__ import annotations

from typing import Any

import click

from holodeck_action.extensions.start.choices import CHECKS, CI
from holodeck_action.run.caller import Caller
from holodeck_action.run.options.command_help import HelpfulCommand
from holodeck_action.run.options.flags import PATH
from holodeck_action.seam import registry


@click.command(cls=HelpfulCommand)
@click.argument("folder", type=PATH, default=".", metavar="[DIR]")
@click.option(
    "--framework",
    type=click.Choice([*registry.frameworks()]),
    help="Look only for an agent that is written with this framework.",
)
@click.option(
    "--check",
    type=click.Choice([*CHECKS]),
    help=f"What grades the answers [default: {next(iter(CHECKS))}]; judge needs a model.",
)
@click.option("--ci", type=click.Choice([*CI]), help="CI service whose workflow file is written [default: github].")
@click.option("-y", "--yes", is_flag=True, help="Ask nothing: take the first of what is found, and the defaults.")
@click.pass_obj
def init(caller: Caller, /, **given: Any) -> int:
    """Find the agent in DIR (default: here), and write the files that DIR lacks: suite, policy, workflow.

    The files are searched for agents of frameworks, FastAPI services, functions that answer, skills, prompts, and
    suites of promptfoo and DeepEval. Nothing of DIR is run, but a test file of DeepEval if that is chosen. At a
    terminal you are asked which one to evaluate, how, and in which CI; elsewhere, and with --yes, the first is taken,
    and the others are named.

    Existing files stay, except that agent.yaml and the policy file get a comment that tells editors their schema.

    Exit code 0: written; 1: an imported suite has checks without an equivalent; 2: a file or an answer cannot be used.

    \b
    Examples:
      holodeck-action init
      holodeck-action init --yes --check f1_score
      holodeck-action init --framework langgraph --ci gitlab
    """
    from holodeck_action.extensions.start.start_suite import StartOptions, start_suite

    return start_suite(StartOptions(**given), caller)
