"""Records the cassettes of the example suites with a scripted model server on this machine.

    python -m scripts.record_examples [support financial retrieval refunds skill]

No model answers: the server takes answers from the example's transcript, script or rule-based analyst, and calls
tools as a model would; the tools really run. `skill` needs claude on the PATH. Every cassette is recorded again, with a
README.md that explains this.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import yaml

from holodeck_action.extensions.agent_programs import scripted_server
from tests.llm.models import Answer, FakeModels, Request, ToolCall
from tests.llm.models.values import Rule

EXAMPLES = Path(__file__).parents[1] / "examples"
CASSETTE = "cassette"
NAMES = ("support", "financial", "retrieval", "refunds", "skill")
_TIMEOUT_S = 300
_LABEL = """# Recorded from a scripted server

The answers in this folder are no model's: they come from a server on loopback that was scripted to answer as this
example needs it, with made-up token counts. `make demo` replays one of these folders;
`python -m scripts.record_examples` makes them again.
"""

Answerer = Callable[[str, list[dict[str, str]]], dict[str, Any]]
"""Takes the last question and the conversation; returns `{response, tool_invocations: [{name, args}]}`."""


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(NAMES))
def main(names: tuple[str, ...]) -> None:
    """Record the cassettes of the given examples, of all by default."""
    for name in names or NAMES:
        count = (record_trials if name == "skill" else record)(EXAMPLES / name)
        click.echo(f"examples/{name}/{CASSETTE}: {count} calls")


def record(example: Path) -> int:
    """Record an example; return the number of calls in the cassette.

    Raises:
        click.ClickException: the run failed, or the server got a request that no provider would accept.
    """
    cassette = example / CASSETTE
    rule = _scripted(example) if (example / "script.yaml").exists() else _answering(example)
    if cassette.exists():
        shutil.rmtree(cassette)
    with FakeModels() as models, tempfile.TemporaryDirectory() as home:
        models.answer(rule)
        finished = subprocess.run(
            [
                sys.executable,
                *("-m", "holodeck_action.cli", "run", "agent.yaml"),
                *("--target", "model", "--record", CASSETTE, "--output-dir", f"{home}/out"),
            ],
            cwd=example,
            env={
                **{
                    name: value
                    for name, value in os.environ.items()
                    if not name.startswith(("CI", "GITHUB_", "INPUT_"))
                },
                "HOME": home,
                "OPENAI_BASE_URL": models.openai_url,
            },
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if finished.returncode not in (0, 1) or models.violations:
            raise click.ClickException("\n".join([finished.stdout, finished.stderr, *models.violations]))
    (cassette / "README.md").write_text(_LABEL, encoding="utf-8")
    return len((cassette / "cassette.jsonl").read_bytes().splitlines())


def record_trials(example: Path) -> int:
    """Record the trials of an example whose target is a coding agent; return their number.

    Raises:
        click.ClickException: the run failed.
    """
    cassette = example / CASSETTE
    shutil.rmtree(cassette, ignore_errors=True)
    script: dict[str, Any] = yaml.safe_load((example / "script.yaml").read_text(encoding="utf-8"))
    suite = yaml.safe_load((example / "agent.yaml").read_text(encoding="utf-8"))
    plays = {case["input"]: script[case["name"]] for case in suite["test_cases"]}

    def decide(request: scripted_server.Request) -> scripted_server.Step:
        started = [
            (at, each) for at, (_, text) in enumerate(request.said) for asked, each in plays.items() if asked in text
        ]
        if not started:
            return scripted_server.Step("text", "A side call.")
        at, play = started[-1]
        made = sum(role == "tool" for role, _ in request.said[at:])
        if made == len(play["calls"]):
            return scripted_server.Step("text", play["answer"])
        [(tool, args)] = play["calls"][made].items()
        folder = re.findall(r'orking directory: ?([^\s"\\\\<]+)', request.whole)[0]
        return scripted_server.Step(
            "call", tool=tool, args={key: text.replace("FOLDER", folder) for key, text in args.items()}
        )

    with scripted_server.serving(decide) as address, tempfile.TemporaryDirectory() as home:
        environ = {"HOME": home, "ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "none", "PATH": os.environ["PATH"]}
        command = ("-m", "holodeck_action.cli", "run", "agent.yaml", "--record", CASSETTE, "--output-dir")
        finished = subprocess.run(
            [sys.executable, *command, f"{home}/out"],
            cwd=example,
            env=environ,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    if finished.returncode != 1:
        raise click.ClickException(finished.stdout + finished.stderr)
    label = _LABEL.replace(
        "The answers in this folder are no model's: they come",
        "The program that answered is real. Its model is not: the answers come",
    )
    (cassette / "README.md").write_text(label, encoding="utf-8")
    return len((cassette / "trials.jsonl").read_bytes().splitlines())


def _answering(example: Path) -> Rule:
    """Return the rule that answers as the example's analyst or transcript."""
    answerer = _analyst(example) if (example / "analyst.py").exists() else _transcript(example)
    return lambda request: _answer(request, answerer)


def _scripted(example: Path) -> Rule:
    """Return the rule that plays the users and the agent of the example's script."""
    script: dict[str, Any] = yaml.safe_load((example / "script.yaml").read_text(encoding="utf-8"))
    suite = yaml.safe_load((example / "agent.yaml").read_text(encoding="utf-8"))
    goals = {case["simulate"]["goal"]: script[case["name"]] for case in suite["test_cases"]}
    turns = {turn["user"]: turn for case in script.values() for turn in case["turns"]}

    def answer(request: Request) -> Answer:
        if not request.system.startswith("You play a person"):
            turn = turns[request.text]
            reply = {"response": turn["answer"], "tool_invocations": turn.get("calls")}
            return _answer(request, lambda question, conversation: reply)
        case = next(case for goal, case in goals.items() if goal in request.system)
        said = sum(json.dumps(turn["user"], ensure_ascii=False) in request.text for turn in case["turns"])
        if said == len(case["turns"]):
            return Answer(json.dumps({"state": case["ends"], "message": ""}))
        return Answer(json.dumps({"state": "goes_on", "message": case["turns"][said]["user"]}))

    return answer


def _answer(request: Request, answerer: Answerer) -> Answer:
    """Answer a request: first call all tools that the example's agent calls, then answer with their results."""
    if request.operation == "embeddings":
        return Answer()
    conversation = [
        {"role": message.role, "content": message.text}
        for message in request.messages
        if message.role in ("user", "assistant") and not message.calls
    ]
    reply = answerer(request.text, conversation)
    calls = reply.get("tool_invocations") or []
    if calls and not request.results:
        return Answer(tools=tuple(ToolCall(call["name"], call["args"]) for call in calls))
    return Answer(reply["response"])


def _transcript(example: Path) -> Answerer:
    lines = (example / "transcripts.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    suite = yaml.safe_load((example / "agent.yaml").read_text(encoding="utf-8"))
    cases = suite.get("test_cases") or yaml.safe_load((example / suite["test_cases_file"]).read_text(encoding="utf-8"))
    listed = cases["test_cases"] if isinstance(cases, dict) else cases
    by_input: dict[str, dict[str, Any]] = {}
    for case in listed:
        replies = [row for row in rows if row["case"] == case["name"]]
        by_input |= dict(zip([turn["input"] for turn in case.get("turns") or [case]], replies, strict=True))
    return lambda question, conversation: by_input[question]


def _analyst(example: Path) -> Answerer:
    sys.path.insert(0, str(example))
    import analyst  # type: ignore[import-not-found]

    return lambda question, conversation: analyst.answer(conversation)


if __name__ == "__main__":
    main()
