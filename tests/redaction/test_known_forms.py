"""What looks like a key reaches no output of any command, although nobody declared it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest

from holodeck_action.commands.command_line import cli
from holodeck_action.text.key_forms import KEY_FORMS
from holodeck_action.text.key_prefixes import KEY_PREFIXES
from holodeck_action.text.redaction import MASK, Redactor
from scripts.build_field_reference import commands_below, parameters_of
from tests.commands.project import Finished, Project
from tests.extensions.traces.spans import exchange, request
from tests.llm.models import KEY, Answer, FakeModels
from tests.redaction.test_channels import files_of, printed

EXAMPLES = {form.name: (form.example, form.key) for form in KEY_FORMS} | {
    each.example: (
        f"hooks.slack.com/services/{each.example}" if "hooks" in each.pattern else each.example,
        each.example,
    )
    for each in KEY_PREFIXES
}
PLANTED = "\n".join(example for example, _ in EXAMPLES.values())
ON_ONE_LINE = " and ".join(example.replace("\n", "\\n") for example, _ in EXAMPLES.values())
WINDOW = 12
PIECES = {
    key[at : at + WINDOW]
    for _, whole in EXAMPLES.values()
    # The prefix and the header of a token are the same in all keys.
    for key in (whole.removeprefix("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI0NzExIn0."),)
    for at in range(max(0, min(13, len(key) - WINDOW)), len(key) - WINDOW + 1)
}
COMMANDS = dict(commands_below(cli))

CODE = """
import json, sys

TEXT = json.loads(open("planted.json").read())


def answer(messages):
    print(TEXT, file=sys.stderr)
    if "raise" in messages[-1]["content"]:
        raise ValueError(TEXT)
    call = {"name": "look", "args": {"text": TEXT, "api_key": "hx7!Kp9wQ2_zLm4tVb8"}, "result": TEXT, "error": TEXT}
    return {"response": TEXT, "tool_invocations": [call], "retrieval_context": [TEXT]}


def grade(ctx):
    from holodeck.lib.test_runner.code_grader import GraderResult

    print(TEXT)
    return GraderResult(score=0.0, reason=TEXT, details={TEXT: [TEXT]})


def refuse(ctx):
    raise RuntimeError(TEXT)
"""


def leaks(places: Mapping[str, str]) -> dict[str, list[str]]:
    return {
        place: found for place, text in places.items() if (found := sorted(each for each in PIECES if each in text))
    }


def write(project: Project) -> None:
    """A suite whose questions, answers, tools, graders and errors hold a key of each form."""
    project.write("planted.json", json.dumps(PLANTED))
    project.write("planted.py", CODE)
    project.suite(
        [
            {"name": f"case {ON_ONE_LINE}", "input": PLANTED, "ground_truth": PLANTED, "expected_tools": ["absent"]},
            {"name": "raise", "input": f"raise {PLANTED}", "ground_truth": "7"},
        ],
        [
            {"type": "standard", "metric": "equality"},
            {"type": "standard", "metric": "f1_score", "threshold": 0.9},
            {"type": "code", "grader": "planted:grade"},
            {"type": "code", "grader": "planted:refuse"},
        ],
    )
    project.policy(target="python:planted:answer")
