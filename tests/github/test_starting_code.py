"""Everything that starts code of the checkout, each planted, on an event where none of it may start."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import pytest

from holodeck_action.commands.command_line import cli
from holodeck_action.workers.code_starters import CODE_STARTERS
from tests.action import composite
from tests.action.step import ROOT, inputs_for
from tests.commands.project import Finished, Project
from tests.extensions.traces.spans import exchange, request
from tests.github.events import HEAD, event_environ
from tests.github.fake import FakeGitHub, Token
from tests.github.repositories import by_code, commit, repository, responses, run
from tests.github.test_merge_base import git
from tests.github.test_refusal import EVENTS_ABOUT_FORKS
from tests.github.workflow import REPOSITORY, TOKEN, WRITES, Workflow, path_with_git
from tests.workers.installing import with_uv

FORK, OWN = "pull_request_target.fork", "pull_request"
REFUSED = "would give a fork's code the secrets and a token that can write, so nothing was evaluated: "
NOWHERE = "http://127.0.0.1:9"
"""Where nobody listens."""


@dataclass
class Job:
    """A job in a checkout in which something is planted that leaves a trace when it starts.

    Attributes:
        workspace: the checkout.
        arguments: of the command, which start it where it may start.
        command: the one that starts it.
        variables: of the job.
    """

    workspace: Project
    arguments: list[str] = field(default_factory=list)
    command: str = "run"
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def trace(self) -> Path:
        return self.workspace.folder.with_name("started")

    @property
    def mark(self) -> str:
        """A line of Python that leaves the trace."""
        return f"open({str(self.trace)!r}, 'w').close()\n"

    def python(self, name: str, text: str) -> None:
        """Write a module that leaves the trace when it is imported."""
        self.workspace.write(name, self.mark + text)

    def program(self, name: str, text: str = "") -> str:
        """Write a program that leaves the trace when it starts, or does something else."""
        path = self.workspace.write(name, f"#!/bin/sh\n{text or f': > {self.trace}'}\n")
        path.chmod(0o755)
        return f"./{name}"

    def suite(self, metrics: list[dict[str, Any]] | None = None, **top: Any) -> None:
        """Write a suite of one case, which a transcript answers."""
        self.workspace.suite([{"name": "a", "input": "?", "ground_truth": "1"}], metrics, **top)
        self.workspace.answers([{"case": "a", "response": "1"}])

    def policy(self, target: str | None = "recorded:answers.jsonl", **more: Any) -> None:
        self.workspace.policy(**({} if target is None else {"target": target}), **more)

    def run(self, event: str, *arguments: str, **more: str) -> Finished:
        environ = event_environ(event, self.workspace.folder.parent)
        inside = {"GITHUB_ACTIONS": "true", "GITHUB_API_URL": NOWHERE}
        return self.workspace.run(*arguments, **{**environ, **inside, **self.variables, **more})


def python_target(job: Job) -> None:
    job.python("own.py", "def answer(messages):\n    return '1'\n")
    job.policy("python:own:answer")


def python_target_of_the_flag(job: Job) -> None:
    job.python("own.py", "def answer(messages):\n    return '1'\n")
    job.arguments.extend(("--target", "python:own:answer"))


def framework(job: Job) -> None:
    job.python("own.py", "raise ImportError('no further')\nagent = None\n")
    job.policy("pydantic-ai:own:agent")


def command(job: Job) -> None:
    job.policy(f"command:{job.program('own')}")


def warm_up(job: Job) -> None:
    answers = f'while read line; do case "$line" in *warm_up*) : > {job.trace};; esac; echo \'"1"\'; done'
    job.policy(f"command:{job.program('own', answers)}", warm_up="Hello")


def grader(job: Job) -> None:
    job.python("checks.py", "def grade(context):\n    return True\n")
    job.suite([{"type": "code", "grader": "checks:grade"}])


def own_metric(job: Job) -> None:
    text = "from deepeval.metrics import BaseMetric\n\n\nclass Tone(BaseMetric):\n    pass\n"
    job.python("tones.py", f"raise ImportError('no further')\n{text}")
    job.suite([{"type": "deepeval", "metric": "tones:Tone", "required_params": ["actual_output"]}])


def summary(job: Job) -> None:
    job.python("checks.py", "def mean(means):\n    return 1.0\n")
    job.policy(gates={"summary": {"method": "custom", "function": "checks:mean", "min": 0.5}})


def cases(job: Job) -> None:
    job.python("rows.py", "def all():\n    return [{'name': 'a', 'input': '?', 'ground_truth': '1'}]\n")
    job.suite(test_cases=None, test_cases_file="python:rows:all")


def asks_model(job: Job) -> None:
    job.policy(None, limits={"turn_timeout_s": 2})
    job.variables.update(OPENAI_API_KEY="sk-of-the-job", OPENAI_BASE_URL=NOWHERE)


def function(job: Job) -> None:
    job.python("shop.py", "def price():\n    return 1\n")
    tool = {"type": "function", "name": "price", "description": "A price.", "file": "shop.py", "function": "price"}
    job.suite(tools=[tool])
    asks_model(job)


def server(job: Job) -> None:
    tools = job.workspace.folder.with_name("tools")
    Project(tools).write("node", '#!/bin/sh\nexec sh "$1"\n').chmod(0o755)
    path = job.program("server")
    tool = {"type": "mcp", "name": "shop", "description": "A shop.", "command": "node", "args": [path]}
    job.suite(tools=[{**tool, "request_timeout": 5}])
    asks_model(job)
    job.variables["PATH"] = f"{tools}:{job.workspace.environ()['PATH']}"


def interpreter(job: Job) -> None:
    job.workspace.write("own.py", "def answer(messages):\n    return '1'\n")
    job.policy("python:own:answer", environment={"interpreter": job.program("python")})


def interpreter_of_the_job(job: Job) -> None:
    job.workspace.write("own.py", "def answer(messages):\n    return '1'\n")
    job.policy("python:own:answer")
    job.variables["HOLODECK_ACTION_PYTHON"] = job.program("python")


def packages(job: Job) -> None:
    job.workspace.write(
        "lib/pyproject.toml",
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "shop"\nversion = "1.0"\n',
    )
    job.python("lib/backend.py", "raise SystemExit('built no further')\n")
    job.workspace.write("requirements.txt", "--no-index\n./lib\n")
    job.workspace.write("own.py", "def answer(messages):\n    return '1'\n")
    job.policy("python:own:answer", environment={"requirements": "requirements.txt"})
    job.variables.update(with_uv(job.workspace.folder.parent))


def packages_of_the_flag(job: Job) -> None:
    packages(job)
    job.policy("python:own:answer")
    job.arguments.extend(("--requirements", "./lib/pyproject.toml"))


def beside(job: Job) -> None:
    other = Project(job.workspace.folder / "other")
    other.suite([{"name": "a", "input": "?", "ground_truth": "1"}])
    other.write("own.py", f"{job.mark}def answer(messages):\n    return '1'\n")
    other.policy(target="python:own:answer")
    job.arguments.extend(("--against", "other"))


Plant = Callable[[Job], None]


def proof(job: Job) -> None:
    job.program("node_modules/.bin/promptfoo")
    case = "{providerOutput: '1', assert: [{type: is-json}]}"
    job.workspace.write("promptfooconfig.yaml", f"prompts: [a]\nproviders: [echo]\ntests: [{case}]\n")
    job.command = "import"
    job.arguments.extend(("promptfoo", "promptfooconfig.yaml", "--prove"))


def imported_tests(job: Job) -> None:
    job.python("test_shop.py", "from deepeval import evaluate\nevaluate([], [])\n")
    job.command = "import"
    job.arguments.extend(("deepeval", "test_shop.py", "-o", "imported"))


def imported_tasks(job: Job) -> None:
    job.python("tasks.py", "from inspect_ai import Task, task\n@task\ndef shop():\n    return Task([])\n")
    job.command = "import"
    job.arguments.extend(("inspect", "tasks.py", "-o", "imported"))


PLANTS: Mapping[str, tuple[Plant, ...]] = {
    "Python targets: `python:MODULE:CALLABLE`": (python_target, python_target_of_the_flag),
    "agents of frameworks: `langgraph:MODULE:AGENT`, …": (framework,),
    "command targets: `command:CMD`": (command,),
    "warm-ups: `warm_up`": (warm_up,),
    "code graders: `grader`": (grader,),
    "own metrics: `metric: MODULE:CLASS`": (own_metric,),
    "custom summaries: `gates.summary.function`": (summary,),
    "cases of a function: `test_cases_file: python:…`": (cases,),
    "function tools: `type: function`": (function,),
    "MCP servers: `type: mcp`, `transport: stdio`": (server,),
    "the Python of the code: `environment.interpreter`": (interpreter, interpreter_of_the_job),
    "packages: `environment`, `--requirements`": (packages, packages_of_the_flag),
    "comparison suites: `against`, `merge-base`": (beside,),
    "imports: `import` of Python, `--prove`": (imported_tests, imported_tasks, proof),
}
each_plant = pytest.mark.parametrize("plant", [plant for plants in PLANTS.values() for plant in plants])


COMMANDS: Mapping[str, tuple[str, ...]] = {
    "run": (),
    "validate": (),
    "rejudge": ("out/results.json", "agent.yaml"),
    "calibrate": ("labels.csv", "agent.yaml", "--metric", "grade"),
    "gate": ("out/results.json",),
    "compare": ("out/results.json", "out/results.json"),
    "merge": ("out", "-o", "merged"),
    "report": ("out/results.json",),
    "view": ("gone", "--no-browser"),
    "export": ("out/results.json", "--format", "honeyhive"),
    "verify": ("out/results.json",),
    "publish": ("out",),
    "init": ("--framework", "langgraph"),
    "import": ("promptfoo", "promptfooconfig.yaml", "-o", "imported"),
    "history show": ("past",),
    "history import": ("out", "--into", "past"),
    "schema": ("request",),
    "test": ("agent.yaml",),
    "doctor": ("agent.yaml",),
    "race": ("agent.yaml", "--vary", "temperature=0", "--vary", "temperature=1", "--dry-run"),
    "optimize": ("agent.yaml", "--dry-run"),
    "drift": ("out/results.json", "--before", "out/results.json"),
    "cases from-traces": ("night.jsonl", "-o", "incidents.yaml", "--suite", "agent.yaml"),
}
"""Each command of the program, with arguments that let it do its work."""
SUITES = ("run", "validate", "rejudge", "calibrate", "doctor", "cases from-traces", "race", "optimize")
"""Those that open a suite."""


@pytest.fixture
def job(project: Project) -> Job:
    """A job in a checkout with results of an earlier run, whose suite starts nothing."""
    workspace = Project(project.folder / "workspace")
    job = Job(workspace)
    job.suite()
    job.policy()
    earlier = workspace.run("run", "-o", "out")
    assert earlier.code == 0, earlier.stderr
    workspace.write("labels.csv", "case,label\na,pass\n")
    workspace.write("night.jsonl", json.dumps(request(exchange("a" * 32, "Where is my parcel?", "In Leeds."))))
    workspace.write("promptfooconfig.yaml", "prompts: [a]\nproviders: [echo]\ntests: [{assert: [{type: is-json}]}]\n")
    return job


@pytest.mark.needs
def test_every_starter_is_planted_and_every_command_tried() -> None:
    assert PLANTS.keys() == {starter.feature for starter in CODE_STARTERS}
    assert COMMANDS.keys() == {*_names(cli)}


def _names(group: click.Group, above: str = "") -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from _names(found, f"{above}{name} ")
        else:
            yield f"{above}{name}"


@each_plant
def test_it_starts_where_it_may(job: Job, plant: Plant) -> None:
    """On a pull request's own event; so nothing below is true by chance."""
    plant(job)
    finished = job.run(OWN, job.command, *job.arguments)
    assert job.trace.exists(), finished.stderr


def test_it_starts_after_a_push_and_on_a_computer(job: Job) -> None:
    """What may start is decided for all of it in one place."""
    python_target(job)
    assert job.run("push", "run").code == 0
    assert job.trace.exists()
    job.trace.unlink()
    assert job.workspace.run("run").code == 0
    assert job.trace.exists()


@each_plant
def test_it_does_not_start_where_secrets_are(job: Job, plant: Plant) -> None:
    """By no command: what opens a suite is refused, all others open none."""
    plant(job)
    for name, arguments in COMMANDS.items():
        starts = name == job.command
        if name == "import" and plant not in (proof, imported_tests, python_target):
            # It reads the configuration alone, in a process of its own: one plant shows that.
            continue
        given = job.arguments if starts and name == "import" else (*arguments, *(job.arguments if starts else ()))
        finished = job.run(FORK, *name.split(), *given)
        assert not job.trace.exists(), name
        if starts or name in (*SUITES, "test"):
            said = finished.stdout if name == "doctor" else finished.stderr
            assert (finished.code, REFUSED in said) == (2, True), (name, said)
            assert "`--allow-unsafe-forks` (in a workflow step" in said
        else:
            assert "so nothing was evaluated" not in finished.stderr, name


def inputs_of(job: Job) -> dict[str, str]:
    """The settings of a step with the job's arguments."""
    flags = job.arguments if job.command == "run" else []
    return {name.removeprefix("--"): value for name, value in zip(flags[::2], flags[1::2], strict=True)}


@each_plant
def test_the_action_does_not_start_it(hub: FakeGitHub, job: Job, plant: Plant) -> None:
    hub.add_repository(REPOSITORY).add_pull(7, head_sha=HEAD, head_repository="mallory/shop", branch="topic")
    plant(job)
    ended = Workflow(hub, job.workspace).job(
        FORK, inputs_of(job), checkout=HEAD, payload=None, permissions=None, **job.variables
    )
    assert (ended.code, REFUSED in ended.text) == (2, True), ended.text
    assert not job.trace.exists()


@pytest.mark.parametrize("plant", [python_target_of_the_flag, packages_of_the_flag, server, interpreter_of_the_job])
def test_the_action_without_its_image_does_not_start_it(job: Job, plant: Plant) -> None:
    """It reads inputs and variables, and refuses before it reads any file of the checkout."""
    plant(job)
    environ = {
        **event_environ(FORK, job.workspace.folder.parent),
        "PATH": job.workspace.environ()["PATH"],
        "HOME": str(job.workspace.folder.with_name("home")),
        **job.variables,
    }
    composed = composite.run(job.workspace.folder, inputs_for(inputs_of(job)), environ, TOKEN)
    assert (composed.code, REFUSED in composed.log) == (2, True), composed.log
    assert not job.trace.exists()


def test_git_is_that_of_the_machine_and_starts_nothing(project: Project) -> None:
    """With hooks and settings of the repository, and a `git` of the checkout first on the PATH."""
    shop = repository(project)
    by_code(shop, "wrong")
    commit(shop)
    by_code(shop, "right")
    job = Job(shop)
    job.program("git")
    for hook in ("post-checkout", "post-index-change", "reference-transaction"):
        job.program(f".git/hooks/{hook}")
    git(shop.folder, "config", "core.hooksPath", "/dev/null")
    commit(shop, "topic")
    git(shop.folder, "config", "--unset", "core.hooksPath")
    git(shop.folder, "config", "core.fsmonitor", str(shop.folder / "git"))
    assert not job.trace.exists()
    path = f"{shop.folder}:.:{shop.environ()['PATH']}"
    finished = run(shop, PATH=path, GITHUB_WORKSPACE=str(shop.folder))
    assert not job.trace.exists()
    assert finished.code == 0, finished.stderr
    assert responses(shop) == ({"right"}, {"wrong"})


@pytest.mark.parametrize("event", EVENTS_ABOUT_FORKS)
def test_whoever_has_read_about_it_can_let_it_start(job: Job, event: str) -> None:
    python_target(job)
    assert job.run(event, "run").code == 2
    assert not job.trace.exists()
    allowed = job.run(event, "run", "--allow-unsafe-forks")
    assert (allowed.code, job.trace.exists()) == (0, True), allowed.stderr
    former = job.run(event, "run", **{"INPUT_ALLOW-UNSAFE-FORKS": "true"})
    assert (former.code, "add `--allow-unsafe-forks` to the command" in former.stderr) == (2, True)


@pytest.mark.proves(*(f"{name}: --allow-unsafe-forks" for name in (*SUITES, "import")))
@pytest.mark.parametrize("name", [*SUITES, "import"])
def test_each_command_that_starts_code_takes_the_option(job: Job, name: str) -> None:
    arguments = ("promptfoo", "promptfooconfig.yaml", "--prove") if name == "import" else COMMANDS[name]
    found = [job.run(FORK, *name.split(), *arguments, *flags) for flags in ((), ("--allow-unsafe-forks",))]
    said = [finished.stdout if name == "doctor" else finished.stderr for finished in found]
    assert [REFUSED in text for text in said] == [True, False], found


@pytest.mark.parametrize(("repository", "code"), [(REPOSITORY, 0), ("mallory/shop", 2), (None, 2)])
@pytest.mark.parametrize("event", ["issue_comment", "workflow_dispatch.pull-request"])
def test_what_the_event_does_not_tell_github_is_asked(
    hub: FakeGitHub, job: Job, event: str, repository: str | None, code: int
) -> None:
    """By the command line, too, where it has a token."""
    hub.add_repository(REPOSITORY).add_pull(7, head_sha=HEAD, head_repository=repository, branch="topic")
    hub.add_token(TOKEN, Token(login="github-actions[bot]", kind="installation", permissions=dict(WRITES)))
    python_target(job)
    job.workspace.write(".git/HEAD", f"{HEAD}\n")
    job.variables["PATH"] = path_with_git(job.workspace.folder.parent, os.environ["PATH"])
    unknown = job.run(event, "run")
    assert (unknown.code, job.trace.exists()) == (2, False)
    assert f"it is unknown whose commit {HEAD[:12]} is: there is no token" in unknown.stderr
    asked = job.run(event, "run", GITHUB_TOKEN=TOKEN, GITHUB_API_URL=hub.url)
    assert (asked.code, job.trace.exists()) == (code, code == 0), asked.stderr
    assert (REFUSED in asked.stderr) == (code == 2)
    assert job.run(event, "decide", "out/results.json", GITHUB_TOKEN=TOKEN, GITHUB_API_URL=hub.url).code == 0
    assert len(hub.requests) == (1 if code == 0 else 2)


def test_the_table_of_the_page_is_that_of_the_code() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    _, found, rest = text.partition("| what | what is started | kind |\n|---|---|---|\n")
    assert found
    rows = re.findall(r"^\| (.*) \| (.*) \| (.*) \|$", rest.partition("\n\n")[0], re.MULTILINE)
    assert rows == [(starter.feature, starter.starts, starter.kind or "") for starter in CODE_STARTERS]


WITHOUT_PERMISSION = {
    "extensions/importers/checks_code.py": "part of an imported suite, which runs in its graders' worker",
    "extensions/importers/providers_code.py": "part of an imported suite, which runs in its target's worker",
    "workers/processes.py": "what all others are started by; it needs the permission",
}
"""Modules that start processes by themselves."""
STARTING = re.compile(r"create_subprocess_|(exec|spawn)[lv]|posix_spawn|popen|fork|forkpty|system$")
OF_INTEREST = re.compile(rf"subprocess|CodeAllowed|NO_CODE|\.\s*({STARTING.pattern.removesuffix('$')})")
"""Matches the text of each module that the test below has to read; the others need not be parsed."""


MADE_IN = {
    "CodeAllowed": {"github/job.py", "github/lookup.py"},
    # Git has options under which it starts nothing that the repository names.
    "NO_CODE": {
        # The installer of the Action without a container: our own script, and packages of uv.lock.
        "commands/installing.py",
        # The program itself, which decides by its own event what may run.
        "extensions/pytest_plugin/shared_run.py",
        "github/bases/local_git.py",
        "metrics/judging/libraries.py",
        "reports/custom.py",
        # The pool of metrics that run no code of a suite.
        "run/one_answer.py",
        "workers/limited_workers.py",
    },
}
"""Where the permission is made, and where one is used under which nothing of the checkout runs."""


def test_nothing_else_starts_a_process() -> None:
    """A new module that does goes through `KillableProcess`, which needs the permission, or is named above."""
    starting = set()
    made: dict[str, set[str]] = {name: set() for name in MADE_IN}
    for path in (ROOT / "holodeck_action").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if not OF_INTEREST.search(text):
            continue
        place = path.relative_to(ROOT / "holodeck_action").as_posix()
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="subprocess"))):
                    starting.add(place)
                case ast.Attribute(value=ast.Name(id="os" | "asyncio"), attr=name) if STARTING.match(name):
                    starting.add(place)
                case ast.Call(func=ast.Name(id="CodeAllowed")):
                    made["CodeAllowed"].add(place)
                case ast.keyword(arg="code", value=ast.Name(id="NO_CODE")):
                    made["NO_CODE"].add(place)
    assert starting == WITHOUT_PERMISSION.keys()
    assert made == MADE_IN
