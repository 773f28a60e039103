"""Every command prints, writes and posts no key that it recognises, whatever value or file holds it.

The commands, their options and their formats come from the declarations, so that a new one is tried, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import cycle

import click
import pytest

from holodeck_action.commands.command_line import cli
from holodeck_action.seam import registry
from scripts.build_field_reference import commands_below, parameters_of
from tests.commands.project import Finished, Project
from tests.extensions.calibration.labelling import QUESTIONED, sheet
from tests.extensions.race.tuning import write as write_tuned
from tests.extensions.traces.spans import exchange, request
from tests.github.events import HEAD
from tests.github.fake import FakeGitHub, Token
from tests.github.workflow import REPOSITORY
from tests.llm.models import KEY, Answer, FakeModels
from tests.redaction.planting import KEYS, ON_ONE_LINE, UNDECLARED, leaked, undeclared_pieces
from tests.redaction.test_channels import VARIABLES, files_of, planted, printed

COMMANDS = dict(commands_below(cli))
PIECES = undeclared_pieces()
ADDRESS = KEYS["user and password of an address"][0]
TOKEN = "ghp_of-alice-4711"


IMPORTED = {
    "promptfoo": {"providers": ["echo"], "prompts": ["{{x}}"], "tests": [{"vars": {"x": UNDECLARED}}]},
    "deepeval": [{"input": UNDECLARED, "expected_output": UNDECLARED}],
}
"""A file of each program whose suites are imported."""


def values_given() -> Iterator[tuple[str, ...]]:
    """The command line of each option with a value, and of each argument, with each of some values."""
    texts = cycle(text.replace("\n", "\\n") for text, _ in KEYS.values())
    for name, command in COMMANDS.items():
        for parameter in parameters_of(command):
            if isinstance(parameter, click.Option) and (parameter.is_flag or parameter.count):
                continue
            option = parameter.opts[:1] if isinstance(parameter, click.Option) else []
            for value in (ON_ONE_LINE, ADDRESS, next(texts)):
                yield *name.split(), *option, value


@pytest.mark.full
def test_no_message_repeats_a_key_that_was_given_as_a_value(project: Project) -> None:
    for number, line in enumerate(values_given()):
        # A command may make a folder of that name, which the next ones would find.
        empty = Project(project.write(f"{number}/.keep", "").parent)
        assert leaked("\n".join(printed([empty.run(*line)]).values()), PIECES) == [], line


def traces(project: Project) -> None:
    told = [exchange(f"{at:032x}", f"{at} {UNDECLARED}", UNDECLARED, session=UNDECLARED[:60]) for at in range(1, 4)]
    project.suite([], [{"type": "length", "min_words": 1}])
    project.write("night.jsonl", "".join(f"{json.dumps(request(spans))}\n" for spans in told))


def judged(project: Project, models: FakeModels) -> None:
    """A suite with a judge, and labels for its answers."""
    models.answer(lambda request: Answer(json.dumps({"reason": UNDECLARED, "score": 3})))
    project.suite(
        [{"name": "one", "input": UNDECLARED, "ground_truth": UNDECLARED}],
        [QUESTIONED, {"type": "standard", "metric": "rouge"}],
        model={"provider": "openai", "name": "judge", "endpoint": models.openai_url},
    )
    project.answers([{"case": "one", "response": UNDECLARED}])
    project.policy(target="recorded:answers.jsonl")
    project.write("labels.csv", sheet([{"case": "one", "metric": "quality", "label": 1, "response": UNDECLARED}]))


def formats_of(command: str) -> tuple[str, ...]:
    """The values of a command's `--format`."""
    if command == "export":
        return tuple(registry.formats())
    (option,) = (each for each in COMMANDS[command].params if "--format" in each.opts)
    return tuple(option.type.to_info_dict()["choices"])


@pytest.mark.full
def test_no_command_writes_or_prints_a_key_of_its_files(project: Project, models: FakeModels, hub: FakeGitHub) -> None:
    one, other, nights = (Project(project.folder / name) for name in ("one", "other", "nights"))
    hub.add_repository(REPOSITORY).add_pull(7, head_sha=HEAD, head_repository=REPOSITORY, branch="topic")
    hub.add_token(TOKEN, Token("alice", "classic", {"pull_requests": "write", "checks": "write", "issues": "write"}))
    planted(one, "python:planted:answer", ["all", "7"], declared=False)
    traces(nights)
    judged(other, models)
    posts = {"GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": hub.url}
    variants = ("--vary", f"target={ADDRESS.replace('postgresql', 'http')}", "--vary", "target=python:planted:answer")
    tested = [
        (one, ("run", "-o", "out", "--history", "past")),
        *((one, ("run", "-o", f"shards/{part}", "--shard", f"{part}/2")) for part in (1, 2)),
        (one, ("run", "--dry-run", "--target", f"command:python3 --password={KEYS['random value'][1]}")),
        (one, ("validate",)),
        (one, ("doctor",)),
        (one, ("gate", "out")),
        *((one, ("compare", "out", "out", "--format", name)) for name in formats_of("compare")),
        *((one, ("report", "out", "--format", name)) for name in formats_of("report")),
        *((one, ("export", "out", "--format", name, "-o", f"exported-{name}")) for name in formats_of("export")),
        (one, ("merge", "shards/1", "shards/2", "-o", "merged")),
        (one, ("rejudge", "out", "-o", "again")),
        (one, ("publish", "out", "--repository", REPOSITORY, "--pull-request", "7")),
        (one, ("history", "import", "out", "--into", "imported")),
        *((one, ("history", "show", "past", "--format", name)) for name in formats_of("history show")),
        (one, ("race", "-o", "raced", *variants, "--allow-plain-http")),
        (one, ("init", "new")),
        (one, ("schema", "agent")),
        (one, ("test", "agent.yaml")),
        (one, ("view", "absent", UNDECLARED)),
        (other, ("run", "-o", "out")),
        (nights, ("run", "-o", "nights", "--target", "traces:night.jsonl")),
        (other, ("verify", "out")),
        *((other, ("calibrate", "labels.csv", "--format", name)) for name in formats_of("calibrate")),
        (nights, ("cases", "from-traces", "night.jsonl", "-o", "cases.yaml", "--accept")),
        *((nights, ("drift", "nights", "--before", "nights", "--format", name)) for name in formats_of("drift")),
    ]
    for program, content in IMPORTED.items():
        other.write(f"{program}.json", json.dumps(content))
        tested.append((other, ("import", program, f"{program}.json", "-o", f"imported-{program}")))
    ended: list[Finished] = []
    for where, line in tested:
        ended.append(
            where.run(*line, **{"OPENAI_API_KEY": KEY, **VARIABLES, **(posts if line[0] == "publish" else {})})
        )
        assert leaked("\n".join(printed(ended[-1:]).values()), PIECES) == [], line
    (other.folder / "holodeck-action.yaml").unlink()
    write_tuned(other, models, 60)
    models.answer(lambda request: Answer(UNDECLARED))
    tested.append((other, ("optimize", "-o", "tuned")))
    ended.append(other.run(*tested[-1][1], OPENAI_API_KEY=KEY))
    names = {name for name in COMMANDS for _, line in tested if line[: len(name.split())] == tuple(name.split())}
    assert names == COMMANDS.keys()
    # They did their work, and an import refuses to write a key.
    refused = {line[0] for (_, line), each in zip(tested, ended, strict=True) if each.code == 2}
    assert refused == {"import", "view"}
    for where in (one, other, nights):
        for name, text in files_of(where.folder).items():
            # What was planted is there, and nothing else in the folder itself but the cases.
            assert leaked(name if "/" not in name and name != "cases.yaml" else f"{name} {text}", PIECES) == [], name
    assert leaked("\n".join(str(call) for call in hub.requests), PIECES) == []
