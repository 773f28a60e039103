"""Coding-agent programs as targets, by streams of the real ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.record.record import Record
from holodeck_action.record.result_files import read_record
from tests.commands.project import Project

STREAMS = Path(__file__).parent / "streams"
PROGRAMS = ("claude", "codex", "copilot", "gemini", "opencode", "pi", "qwen")
MODELS = dict.fromkeys(("opencode", "pi"), "openai/scripted")
DONE = "Finished: wrote notes.txt and ran one command."
ENDS = {
    "work": "",
    "fail": "",
    "say": "",
    "skill": "",
    "401": "infrastructure_error",
    "429": "infrastructure_error",
    "w500": "infrastructure_error",
    "cut": "infrastructure_error",
    "wcut": "infrastructure_error",
    "empty": "infrastructure_error",
    "max": "cut_off",
}
"""How each recording must end; empty for an answer. The exit codes of many are 0."""
WORDS = {
    "work": "it writes a file, runs a command and answers",
    "fail": "a command fails, and it answers",
    "say": "it answers at once",
    "skill": "it uses a skill, and answers",
    "401": "the key is refused",
    "429": "too many requests, until it gives up",
    "w500": "the provider fails after a step",
    "cut": "the first answer breaks off",
    "wcut": "an answer breaks off after a step",
    "empty": "the answer is empty",
    "max": "the answer stops at the token limit",
}


def install(project: Project, *programs: str) -> dict[str, str]:
    """Put players of recorded streams on the PATH; returns the environment."""
    # opencode is said not to work without this program.
    project.write("bin/rg", "#!/bin/sh\n").chmod(0o755)
    for program in programs:
        file = project.write(
            f"bin/{program}",
            f'#!/bin/sh\n[ "$1" = --version ] && echo {program} 0.1.2. && exit\n'
            f'exec {sys.executable} {Path(__file__).parent / "player.py"} {program} {STREAMS} "$@"\n',
        )
        file.chmod(0o755)
    return {"PATH": f"{project.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}


TIMED = {"claude", "copilot", "gemini", "opencode"}
"""The programs whose stored streams have the times of calls."""


def run(project: Project, program: str, *scenarios: str, **target: Any) -> tuple[int, Record, str]:
    """Run one case for each recording."""
    environ = install(project, program)
    project.suite(
        [{"name": name, "input": f"Do it. SCN={name}"} for name in scenarios],
        [{"type": "contains", "value": "e"}],
    )
    project.policy(target={"agent": program, "model": MODELS.get(program), "self_check": False, **target})
    finished, record = project.evaluate(**environ)
    return finished.code, record, finished.stdout + finished.stderr


@pytest.mark.full
@pytest.mark.parametrize("program", PROGRAMS)
def test_how_a_turn_ended_is_read_from_the_stream(project: Project, program: str) -> None:
    code, record, _ = run(project, program, *ENDS)
    found = {case.name: case.trials[0].turns[0].error for case in record.cases}
    assert {name: error.code if error else "" for name, error in found.items()} == ENDS
    assert code == 3
    # What was done before an error is known.
    turns = {case.name: case.trials[0].turns[0] for case in record.cases}
    assert {
        name for name, turn in turns.items() if "difference" not in (turn.metadata or {}).get("workspace", {})
    } == set()


def test_the_page_has_the_exit_code_of_each_end() -> None:
    stored = json.loads((STREAMS / "exit-codes.json").read_text(encoding="utf-8"))
    codes = {name: "–" if code is None else str(code) for name, code in stored.items()}
    rows = [
        f"| {words} | {' | '.join(codes[f'{program}-{name}'] for program in PROGRAMS)} | "
        f"{f'`{ENDS[name]}`' if ENDS[name] else 'answered'} |"
        for name, words in WORDS.items()
    ]
    page = (Path(__file__).parents[3] / "docs" / "agents.md").read_text(encoding="utf-8")
    assert WORDS.keys() == ENDS.keys()
    assert "\n".join(rows) in page, "\n".join(rows)


@pytest.mark.full
def test_a_turn_that_took_too_long_has_what_was_done(project: Project) -> None:
    project.suite([{"name": "slow", "input": "x"}], [{"type": "contains", "value": "e"}])
    project.policy(target={"agent": "command", "command": "sleep 600"}, limits={"turn_timeout_s": 1})
    _, record = project.evaluate()
    (turn,) = record.cases[0].trials[0].turns
    assert turn.error is not None
    assert turn.error.code == "timeout"
    assert turn.metadata is not None
    assert turn.metadata["agent"]["ended"] == "stopped"
    assert turn.metadata["workspace"]["changed"] == []


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.proves("AgentTarget.agent")
def test_a_turn_has_its_calls_tokens_and_changed_files(project: Project, program: str) -> None:
    project.write("shop/AGENTS.md", "Be kind.\n")
    code, record, said = run(project, program, "work", workspace="shop")
    (turn,) = record.cases[0].trials[0].turns
    assert (code, turn.response) == (0, DONE), said
    calls = turn.tool_invocations or ()
    assert len(calls) == 2
    assert "notes.txt" in json.dumps(calls[0].args)
    assert str(project.folder) not in json.dumps([dict(call.args) for call in calls])
    assert "/tmp" not in json.dumps([dict(call.args) for call in calls])
    # The stream of one program has no exit codes.
    output = {"output": calls[1].result, "exit_code": 0} if program == "gemini" else dict(calls[1].result)
    assert "ok-42" in output["output"]
    steps = turn.timing.steps if turn.timing else ()
    assert [step.tool for step in steps] == ([0, 1] if program in TIMED else [])
    assert steps == () or (steps[0].start_ms, steps[1].start_ms) > (0.0, calls[0].duration_ms or 0.0)
    assert {call.duration_ms is None for call in calls} == {program not in TIMED}
    assert output["exit_code"] == 0
    assert turn.usage is not None
    assert turn.metadata is not None
    assert (turn.usage.prompt_tokens, turn.usage.cached_tokens, turn.usage.completion_tokens) == (3000, 1200, 150)
    changed = turn.metadata["workspace"]["changed"]
    assert [(each["path"], each["change"], each["added_lines"]) for each in changed] == [("notes.txt", "added", 1)]
    assert "+hello from the fake" in turn.metadata["workspace"]["difference"]
    assert record.provenance.target.split(":")[:2] == ["agent", program]
    assert not (project.folder / "shop" / "notes.txt").exists()


@pytest.mark.full
@pytest.mark.parametrize(("program", "version"), [("claude", "2.1.332"), ("copilot", "0.1.2")])
def test_another_version_of_the_program_is_told(project: Project, program: str, version: str) -> None:
    code, record, said = run(project, program, "say")
    (turn,) = record.turns
    assert code == 0, said
    assert (turn.metadata or {})["agent"]["version"] == version
    project.out.rename(project.folder / "base")
    script = project.folder / "bin" / program
    newer = script.read_text().replace("0.1.2", "0.1.3").replace("exec ", "").rstrip()
    script.write_text(f"{newer} | sed s/2.1.332/2.1.333/\n")
    project.policy(target={"agent": program, "self_check": False}, baseline={"source": "file:base"})
    finished = project.run("run", "-o", "out", PATH=f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    assert finished.code == 0, finished.stderr
    assert f"runs with {program} {version[:-1]}3 instead of {version}" in finished.stdout + finished.stderr


FAILING = "FAILED t/a.py::test_a[x y] - no\\n--- FAIL: TestB (0.1s)\\n  ✕ says hello (5 ms)\\n"
CHECKS: dict[str, tuple[dict[str, Any], str]] = {
    "exists": ({"file": {"path": "notes.txt"}}, ""),
    "contains": ({"file": {"path": "notes.txt", "contains": "hello"}}, ""),
    "unchanged file": ({"file": {"path": "AGENTS.md", "matches": "^Be kind"}}, ""),
    "equals": ({"file": {"path": "notes.txt", "equals": "golden.txt"}}, "differs from golden.txt in line 1"),
    "missing": ({"file": {"path": "src/refund.py"}}, "src/refund.py does not exist"),
    "must be absent": ({"file": {"path": "notes.txt", "exists": False}}, "notes.txt exists"),
    "data": ({"data": {"path": "package.json", "at": "$.scripts.test", "equals": "vitest"}}, ""),
    "yaml": ({"data": {"path": "ci.yaml", "at": "$.jobs[*].name", "regex": "^b"}}, '$.jobs[*].name is "test"'),
    "toml": (
        {"data": {"path": "pyproject.toml", "at": "$.project.version", "exists": False}},
        "expected nothing there",
    ),
    "only": ({"changed": {"only": ["notes.*"], "max_files": 1, "max_lines": 1}}, ""),
    "outside": ({"changed": {"only": ["src/**"]}}, "notes.txt may not be changed"),
    "forbidden": ({"changed": {"never": ["**/notes.txt"]}}, "notes.txt must not be changed"),
    "nothing": ({"changed": {"max_files": 0}}, "1 file changed, at most 0 may"),
    "wanted": ({"changed": {"any": ["src/refund.py"]}}, "src/refund.py was not changed"),
    "called": ({"called": {"tool": "command_*", "args": {"command": {"matches": "cat notes"}}}}, ""),
    "other arguments": ({"called": {"tool": "command_execution", "args": {"command": {"matches": "npm"}}}}, "other"),
    "never": ({"called": {"tool": "command_execution", "never": {"matches": "cat"}}}, "must never be"),
    "too often": ({"called": {"tool": "*", "max": 1}}, "was called 2 times, at most 1"),
    "command": ({"command": {"run": "cat notes.txt AGENTS.md", "stdout": {"contains": "hello"}}}, ""),
    "hidden": ({"command": {"run": "sh hidden/test.sh", "hidden": "hidden", "exit": 3}}, ""),
    "failing": ({"command": {"run": "sh hidden/test.sh", "hidden": "hidden"}}, "exit code 3, expected 0"),
    "no match": ({"file": {"path": "notes.txt", "matches": "^bye"}}, "has no match of /^bye/"),
    "lines": ({"changed": {"max_lines": 0}}, "1 line changed, at most 0 may"),
    "named tests": (
        {"command": {"run": f"printf '{FAILING}'; exit 1"}},
        "3 failed: test_a[x y], TestB, says hello; exit code 1",
    ),
    "ignored": ({"changed": {"only": ["notes.txt"], "max_files": 1, "max_lines": 1}}, ""),
    "stderr": ({"command": {"run": "echo no >&2", "stderr": {"matches": "^yes"}}}, "its stderr has no match of"),
    "stdout": ({"command": {"run": "echo no", "stdout": {"contains": "yes"}}}, "its stdout does not contain"),
    "no skill": ({"skill": {"used": "greeter"}}, "the skill greeter was not used"),
    "not the skill": ({"skill": {"never": "greeter"}}, ""),
    "hidden key": ({"file": {"path": "arguments.log", "contains": 'exclude=["OPENAI_API_KEY", "CODEX_API_KEY"]'}}, ""),
}
"""An entry of `expect`, and words of the reason if it fails."""


@pytest.mark.full
@pytest.mark.proves(
    "AgentTarget.workspace",
    "FileMetric: type file",
    "FileConditions: path exists contains matches equals",
    "DataMetric: type data",
    "DataConditions: path at",
    "ChangedMetric: type changed",
    "ChangedConditions: only never any max_files max_lines",
    "CommandMetric: type command",
    "CommandConditions: run hidden exit stdout stderr",
    "OutputConditions: contains matches",
    "CalledMetric: type called",
    "CalledConditions: tool args never max",
    "ArgumentPattern.matches",
    "SkillMetric: type skill",
    "SkillConditions.never",
)
def test_what_was_left_and_done_is_checked(project: Project) -> None:
    environ = install(project, "codex")
    player = (project.folder / "bin" / "codex").read_text()
    project.write(
        "bin/codex",
        player.replace(
            "exec ", "echo '*.txt' >> .git/info/exclude; printf '\\377' > a.log; echo \"$@\" > arguments.log; exec "
        ),
    )
    project.write("hidden/test.sh", "grep -q hello notes.txt && echo refund is wrong && exit 3\n")
    project.write("golden.txt", "good bye\n")
    project.write("shop/AGENTS.md", "Be kind.\n")
    project.write("shop/.gitignore", "*.log\n")
    project.write("shop/package.json", '{"scripts": {"test": "vitest"}}')
    project.write("shop/ci.yaml", "jobs: [{name: build}, {name: test}]\n")
    project.write("shop/pyproject.toml", '[project]\nversion = "1"\n')
    cases = [{"name": name, "input": "SCN=work", "expect": [check]} for name, (check, _) in CHECKS.items()]
    project.suite(cases, evaluations=None)
    project.policy(target={"agent": "codex", "workspace": "shop"}, limits={"concurrency": 4})
    finished = project.run("run", "-o", "out", **environ)
    assert finished.code == 1, finished.stderr
    record = read_record(project.out / "results.json")
    found = {case.name: case.trials[0].turns[0].evaluations[-1] for case in record.cases}
    failed = {name: words for name, (_, words) in CHECKS.items() if words}
    assert {name: each.error for name, each in found.items() if each.error is not None} == {}
    assert {name for name, each in found.items() if each.score == 0.0} == {*failed}
    assert [name for name, words in failed.items() if words not in (found[name].explanation or "")] == []


HUNTER = """
import os, pathlib, subprocess, sys
print("I looked around.", sorted(os.environ), flush=True)
for place in ("/proc/self/environ", f"/proc/{os.getppid()}/environ"):
    print(pathlib.Path(place).read_bytes())
for name in sys.argv[1:]:
    with open(name, "a") as file:
        file.write("\\n")
"""


@pytest.mark.parametrize("victim", ["", "agent.yaml", "graders/check.py"])
@pytest.mark.proves("AgentTarget: command env")
def test_an_agent_finds_no_secret_and_changes_no_exam(project: Project, victim: str) -> None:
    project.write("hunter.py", HUNTER)
    project.write("graders/check.py", "")
    project.suite([{"name": "hunt", "input": "x", "expect": [{"contains": "looked"}]}], evaluations=None)
    changed = str(project.folder / victim) if victim else ""
    project.policy(
        target={
            "agent": "command",
            "command": f"{sys.executable} {project.folder / 'hunter.py'} {changed}",
            "env": ["KIND"],
            "confine": "none",
        }
    )
    for words in (("init", "-q"), ("add", "-A")):
        subprocess.run(["git", *words], cwd=project.folder, check=True)
    secrets = {
        "GITHUB_TOKEN": "ghs_abcdefghij",
        "OPENAI_API_KEY": "sk-proj-abcdefghij",
        "ACTIONS_RUNTIME_TOKEN": "a-b-c-d",
    }
    finished, record = project.evaluate(**secrets, KIND="known")
    (turn,) = record.cases[0].trials[0].turns
    if victim:
        assert finished.code == 3
        assert turn.error is not None
        assert f"{victim} was changed while the agent worked" in turn.error.message
        return
    assert finished.code == 0
    assert "KIND" in (turn.response or "")
    seen = (turn.response or "").partition("]")[0]
    assert not [name for name in (*secrets, "GITHUB_", "ACTIONS_", "RUNNER_") if name in seen]
    assert not [value for value in secrets.values() if value in (project.out / "results.json").read_text()]


@pytest.mark.full
@pytest.mark.proves("AgentTarget: model options max_calls", "SkillConditions.used", "CommandConditions.timeout_s")
def test_the_settings_of_a_program_reach_it(project: Project) -> None:
    """The program writes its arguments, plays a turn with one call of a skill, and does not end where it should."""
    player = f"{sys.executable} {Path(__file__).parent / 'player.py'} claude {STREAMS}"
    script = f'#!/bin/sh\necho "$@" > arguments.txt\n{player}; code=$?\n[ -f ../stay ] && sleep 600\nexit $code\n'
    project.write("bin/claude", script).chmod(0o755)
    environ = {"PATH": f"{project.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    late = {"command": {"run": "sleep 60", "timeout_s": 0.2}}
    checks = [
        {"file": {"path": "arguments.txt", "contains": "--model fast"}},
        {"file": {"path": "arguments.txt", "contains": "--max-turns 7 --bare"}},
        {"skill": {"used": "greeter"}},
        late,
    ]
    project.suite([{"name": "skill", "input": "SCN=skill", "expect": checks}], evaluations=None)
    options = {"max-turns": "7", "bare": True, "debug": False}
    project.policy(target={"agent": "claude", "model": "fast", "options": options})
    _, record = project.evaluate(**environ)
    *passed, stopped = record.cases[0].trials[0].turns[0].evaluations
    assert [each.score for each in passed] == [1.0, 1.0, 1.0]
    assert stopped.error is not None
    assert "sleep 60 took longer than 0.2 s" in stopped.error.message
    project.write("bin/claude", script.replace("[ -f ../stay ] && sleep", "sleep"))
    project.suite([{"name": "work", "input": "SCN=work", "expect": [{"contains": "e"}]}], evaluations=None)
    project.policy(target={"agent": "claude", "max_calls": 1, "self_check": False})
    _, record = project.evaluate(**environ)
    (turn,) = record.cases[0].trials[0].turns
    assert turn.error is not None
    assert "made more than 1 calls of tools (max_calls); it was stopped" in turn.error.message


BROKEN = {
    "no file": ('cd "$HOME"', "it could not write a file"),
    "no command": ("touch notes.txt; set -- SCN=say", "it could not run a command"),
    "no model": ("set -- SCN=401", "it ended with an error: "),
    "no end": ("exit 5", "it ended without its last event, so it is unknown whether it had finished; its last line"),
}
"""A line of a program that does not work on a machine, and what the self-check says."""


@pytest.mark.full
@pytest.mark.parametrize("broken", ["", *BROKEN])
@pytest.mark.proves("AgentTarget.self_check")
def test_a_program_that_does_not_work_here_is_found_before_the_first_case(project: Project, broken: str) -> None:
    line, reason = BROKEN.get(broken, ("", ""))
    player = f"{sys.executable} {Path(__file__).parent / 'player.py'} codex {STREAMS}"
    script = (
        f'#!/bin/sh\n[ "$1" = --version ] && exit\necho one >> {project.folder}/starts; echo a >&2\n'
        f'set -- "$(cat)"\n{line}\necho "$1" | {player}\n'
    )
    project.write("bin/codex", script).chmod(0o755)
    environ = {"PATH": f"{project.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    cases = [{"name": name, "input": "SCN=work", "expect": [{"contains": "e"}]} for name in ("one", "two")]
    project.suite(cases, evaluations=None)
    project.policy(target={"agent": "codex", "confine": "none"})
    finished, record = project.evaluate(**environ)
    errors = [case.trials[0].error for case in record.cases]
    starts = project.folder / "starts"
    if not broken:
        assert (finished.code, errors, len(starts.read_text().split())) == (0, [None, None], 3)
        project.evaluate(**environ)
        assert len(starts.read_text().split()) == 5
        return
    assert finished.code == 3
    assert len(starts.read_text().split()) == 1
    sentence = f"codex does not work on this machine (self-check without a model): {reason}"
    assert [error is not None and sentence in error.message for error in errors] == [True, True]


@pytest.mark.full
@pytest.mark.parametrize("command", ["make", "break"])
@pytest.mark.proves("AgentTarget.setup")
def test_a_workspace_is_set_up_once_and_without_secrets(project: Project, command: str) -> None:
    project.write("shop/.gitignore", "made\n")
    project.write("shop/make.sh", f"env > made; ln -s /bin/sh shell; echo one >> {project.folder}/starts\n")
    project.write("shop/break.sh", "echo no such package >&2; exit 4\n")
    look = f"{sys.executable} -c 'import os; print(os.listdir(), open(\"made\").read())'"
    checks = [
        {"contains": "shell"},
        {"changed": {"max_files": 0}},
        {"command": {"run": "test -e made && ./shell -c :"}},
    ]
    project.suite([{"name": name, "input": "x", "expect": checks} for name in ("a", "b")], evaluations=None)
    target = {"agent": "command", "command": look, "workspace": "shop", "env": ["KIND"], "setup": f"sh {command}.sh"}
    project.policy(target=target)
    cached = project.folder / "cache"
    secrets = {"OPENAI_API_KEY": "sk-proj-abcdefghij", "GITHUB_TOKEN": "ghs_abcdefghij"}
    for _ in range(2):
        finished, record = project.evaluate(KIND="known", XDG_CACHE_HOME=str(cached), **secrets)
        trials = [case.trials[0] for case in record.cases]
        if command == "break":
            words = "the workspace cannot be set up: sh break.sh ended with exit code 4: no such package"
            assert finished.code == 3
            assert {trial.error.message for trial in trials if trial.error is not None} == {words}
            continue
        assert finished.code == 0, finished.stdout
        assert "KIND" not in (trials[0].turns[0].response or "KIND")
        assert (project.folder / "starts").read_text() == "one\n"
    if command == "make":
        # An agent that is not confined could have changed it.
        [made] = cached.rglob("setups/*/made")
        made.write_text("other")
        project.evaluate(XDG_CACHE_HOME=str(cached))
        assert (project.folder / "starts").read_text() == "one\none\n"
        project.write("shop/new.txt", "")
        project.evaluate(XDG_CACHE_HOME=str(cached))
        assert (project.folder / "starts").read_text() == "one\none\none\n"


GRADER = """
def changed(ctx):
    return [entry["path"] for entry in ctx.workspace["changed"]] == ["notes.txt"]
"""


@pytest.mark.full
@pytest.mark.proves("WorkspaceTextMetric: type workspace_text metrics")
def test_metrics_grade_texts_of_the_workspace(project: Project) -> None:
    project.write("graders.py", GRADER)
    texts = {
        "{{diff}}": "+hello from the fake",
        "{{ files }} in": "added notes.txt in",
        "{{trajectory}}": "cat notes.txt",
        "{{file notes.txt}}": "hello from the fake",
        "{{response}}": DONE,
    }
    checks = [
        {"workspace_text": text, "metrics": [{"type": "contains", "value": value}]}
        for text, wanted in texts.items()
        for value in (wanted, "nowhere")
    ]
    # What is not there has no text, in which something could be missing.
    checks.append({"workspace_text": "{{file no.txt}}", "metrics": [{"type": "not_contains", "value": "x"}]})
    grader = {"type": "code", "grader": "graders:changed"}
    project.suite([{"name": "work", "input": "SCN=work", "expect": checks}], [grader])
    project.policy(target={"agent": "codex"})
    _, record = project.evaluate(**install(project, "codex"))
    found = record.cases[0].trials[0].turns[0].evaluations
    assert [each.error for each in found if each.error is not None] == []
    assert sorted(str(bool(each.score)) for each in found) == ["False"] * 6 + ["True"] * 6
    project.suite([{"name": "x", "input": "x", "expect": [{"workspace_text": "{{no}}", "metrics": []}]}])
    finished = project.run("run", "-o", "out", **install(project, "codex"))
    assert finished.code == 2
    assert "unknown placeholder" in finished.stderr


@pytest.mark.full
def test_costs_are_told_priced_or_refused(project: Project) -> None:
    _, record, _ = run(project, "codex", "say", model="gpt-4o")
    usage = record.cases[0].trials[0].turns[0].usage
    assert usage is not None
    assert usage.cost_usd is not None
    assert usage.estimated
    notice = "nothing limits what codex spends: set budget.max_cost_usd"
    assert notice in run(project, "codex", "say", model="gpt-4o")[2]
    limited = project.run("run", "-o", "out", "--max-cost-usd", "5", **install(project, "codex"))
    assert notice not in limited.stdout + limited.stderr
    planned = project.run("run", "--dry-run", **install(project, "codex"))
    each = f"${usage.cost_usd:.4f}"
    price = f"price about {each} (1 trial, {each} each in an earlier run)"
    assert "1 case, calls unknown, price unknown: agent:codex:gpt-4o answers" in planned.stdout
    planned = project.run("run", "--dry-run", "-o", "out", **install(project, "codex"))
    assert f"1 case, calls unknown, {price}: agent:codex:gpt-4o answers" in planned.stdout
    project.policy(target={"agent": "copilot"}, gates={"max_cost_usd": 1, "max_total_tokens": 10})
    refused = project.run("run", **install(project, "copilot"))
    assert refused.code == 2
    reason = "does not report what the gate depends on: Copilot's own models are paid by requests, not by tokens"
    assert [line.count(reason) for line in refused.errors] == [1, 1]
    own = project.run(
        "run", "-o", "out", COPILOT_PROVIDER_BASE_URL="http://127.0.0.1:9/v1", **install(project, "copilot")
    )
    assert own.code != 2
    project.policy(target={"agent": "codex", "command": "my-agent"})
    both = project.run("run", **install(project, "codex"))
    assert (both.code, "agent: command and the key command need each other" in both.stderr) == (2, True)
