"""The step from inputs to exit code, as a workflow sees it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from holodeck_action.github.runner import SUMMARY_LIMIT
from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.result_files import read_record
from tests.action.step import ROOT, Ended, Step, action
from tests.reports.pages import Page
from tests.workers.test_tokens import LOOKING


def test_the_support_example(step: Step) -> None:
    shutil.copytree(ROOT / "examples" / "support", step.project.folder, dirs_exist_ok=True)
    ended = step.run()
    assert ended.code == 1
    assert ended.outputs.keys() == action()["outputs"].keys()
    rate = 21 / 27
    expected = {
        "verdict": "failed",
        "exit-code": "1",
        "passed": "21",
        "failed": "6",
        "errors": "0",
        "skipped": "0",
        "total": "27",
        "results-path": "holodeck-results/results.json",
        "report-path": "holodeck-results/report.md",
        "verdict-path": "holodeck-results/verdict.json",
    }
    assert expected.items() <= ended.outputs.items()
    assert float(ended.outputs["pass-rate"]) == pytest.approx(rate)
    assert "Cancel an order" in ended.summary
    assert "**21 of 27 passed, all must pass**" in ended.summary
    [error] = ended.meant[-1:]
    assert error.name == "error"
    assert error.properties == {"title": "holodeck-action"}
    assert error.data.startswith("FAILED: larkfield-support · 21 of 27 passed, all must pass")

    report = (step.project.folder / "holodeck-results/report.md").read_text(encoding="utf-8")
    assert ended.report == report.strip()

    by_step = read_record(step.project.folder / "holodeck-results/results.json")
    _, by_command = step.project.evaluate()
    assert canonical_json(by_step) == canonical_json(by_command)


def test_a_suite_that_passes_leaves_no_annotation(step: Step) -> None:
    step.project.numbered(3)
    ended = step.run()
    assert ended.code == 0
    assert ended.outputs["verdict"] == "passed"
    assert ended.outputs["pass-rate"] == "1.0"
    assert ended.outputs["cost-usd"] == ""
    assert {command.name for command in ended.meant} == {"add-mask"}


@pytest.mark.parametrize(
    ("answers", "verdict", "code"),
    [
        pytest.param([{"case": "case 0", "response": "wrong"}], "failed", 1, id="failed"),
        pytest.param([{"case": "other", "response": "0"}], "incomplete", 3, id="incomplete"),
    ],
)
def test_fail_on_never_leaves_the_verdict_to_the_outputs(
    step: Step, answers: list[dict[str, str]], verdict: str, code: int
) -> None:
    step.project.numbered(1)
    step.project.answers(answers)
    assert step.run().code == code
    step.output_file.unlink()
    ended = step.run({"fail_on": "never"})
    assert ended.code == 0
    assert ended.outputs["verdict"] == verdict
    assert ended.outputs["exit-code"] == str(code)
    assert "error" not in {command.name for command in ended.meant}
    assert ended.summary


def test_the_workflow_can_let_suites_read_more(step: Step) -> None:
    step.project.numbered(1)
    outside = step.project.folder.parent / f"{step.project.folder.name}-outside"
    outside.mkdir()
    (step.project.folder / "answers.jsonl").rename(outside / "answers.jsonl")
    step.project.policy(target=f"recorded:{outside}/answers.jsonl")
    ended = step.run()
    assert ended.code == 2
    assert "holodeck-action.yaml:2:12: target: the file is outside the checkout" in ended.text
    step.output_file.unlink()
    assert step.run({"allow_path": str(outside)}).code == 0


def test_code_of_the_suite_finds_no_token_of_the_step(step: Step) -> None:
    step.project.suite([{"input": "hi", "ground_truth": "hi"}], [{"type": "code", "grader": "graders:looks"}])
    step.project.write("graders.py", f"{LOOKING}\n\ndef answer(messages):\n    return 'hi'\n")
    step.project.policy(target="python:graders:answer")
    assert step.run(arguments=()).code == 0


def test_a_configuration_error_fails_whatever_fail_on_says(step: Step) -> None:
    step.project.numbered(1)
    step.project.write("agent.yaml", "name: [")
    ended = step.run({"fail_on": "never"})
    assert ended.code == 2
    assert ended.outputs["verdict"] == "invalid"
    assert ended.outputs["passed"] == ended.outputs["verdict-path"] == ""
    assert "error: agent.yaml:2:1: is not valid YAML" in ended.text
    assert "agent.yaml:2:1: is not valid YAML" in ended.summary
    [error] = [command for command in ended.meant if command.name == "error"]
    assert error.data.startswith("agent.yaml:2:1: is not valid YAML")


def test_a_deadline_is_told_apart(step: Step) -> None:
    step.project.numbered(2)
    step.project.write("slow.py", "import time\n\ndef answer(messages):\n    time.sleep(60)\n    return ''\n")
    ended = step.run({"target": "python:slow:answer", "run_timeout": "0.5"})
    assert ended.code == 4
    assert ended.outputs["verdict"] == "stopped"
    assert ended.outputs["skipped"] != ended.outputs["passed"] == "0"


def test_several_suites_are_summed_up(step: Step) -> None:
    for name, count, wrong in (("one", 2, frozenset[int]()), ("two", 3, frozenset({1}))):
        step.project.numbered(count, wrong)
        for file in ("agent.yaml", "holodeck-action.yaml", "answers.jsonl"):
            target = step.project.folder / name / file
            target.parent.mkdir(exist_ok=True)
            (step.project.folder / file).rename(target)
    ended = step.run({"suite": "one\ntwo/agent.yaml\n", "output_dir": "out/here"})
    assert ended.code == 1
    assert (ended.outputs["passed"], ended.outputs["failed"], ended.outputs["total"]) == ("4", "1", "5")
    assert float(ended.outputs["pass-rate"]) == pytest.approx(2 / 3)
    assert ended.outputs["results-path"].splitlines() == ["out/here/one/results.json", "out/here/two/results.json"]
    assert ended.outputs["verdict-path"] == "out/here/verdict.json"
    for path in (*ended.outputs["results-path"].splitlines(), ended.outputs["verdict-path"]):
        assert (step.project.folder / path).is_file()
    step.output_file.unlink()
    assert step.run({"suite": "*/agent.yaml"}).outputs["total"] == "5"


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ({"repeat": "2", "min_pass": "3"}, "min-pass 3 is more than repeat 2: no case could pass"),
        ({"output_dir": "../results"}, "input output-dir: '../results' is outside the workspace"),
        ({"output_dir": "/tmp"}, "input output-dir: '/tmp' is outside the workspace"),
        ({"failed_from": "old.json"}, "old.json: cannot be read: No such file or directory"),
        ({"env_file": "missing.env"}, "missing.env: cannot be read: No such file or directory"),
        ({"suite": "missing"}, "missing: no such suite"),
        ({"target": "ftp://host"}, "--target: must be recorded:PATH"),
        (
            {"concurrency": "x", "max_flaky": "y"},
            "args: --max-flaky: 'y' is not allowed (allowed: a whole number, 0 or more)",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_any_work(step: Step, inputs: dict[str, str], sentence: str) -> None:
    step.project.numbered(1)
    ended = step.run(inputs)
    assert ended.code == 2
    assert sentence in ended.text
    assert not (step.project.folder / "holodeck-results").exists()


def test_a_misspelt_input_is_refused(step: Step) -> None:
    step.project.numbered(1)
    ended = step.run(INPUT_MIN_PASS_RATE="0.5")
    assert ended.code == 2
    assert (
        "error: input min_pass_rate: there is no such input; did you mean `--min-pass-rate 0.5` in args?"
        in ended.log.text
    )


def compared(step: Step, inputs: dict[str, str], *lines: str) -> Ended:
    """The step that compares, after a run without and one with a failing case."""
    step.project.numbered(4)
    step.project.run("run", "-o", "base")
    step.project.numbered(4, frozenset({1}))
    step.project.run("run", "-o", "holodeck-results")
    return step.run({"command": "compare", "args": "\n".join(lines), **inputs})


@pytest.mark.parametrize(
    ("inputs", "lines", "code", "verdict"),
    [
        ({}, ("base", "holodeck-results/results.json"), 1, "failed"),
        ({}, ("base",), 1, "failed"),
        ({"output_dir": "base"}, ("base",), 0, "passed"),
        ({}, ("holodeck-results", "base"), 0, "passed"),
        ({}, ("base", "--max-regressions 1"), 0, "passed"),
        ({"fail_on": "never"}, ("base",), 0, "failed"),
    ],
)
def test_two_runs_are_compared(
    step: Step, inputs: dict[str, str], lines: tuple[str, ...], code: int, verdict: str
) -> None:
    ended = compared(step, inputs, *lines)
    assert (ended.code, ended.outputs["verdict"]) == (code, verdict), ended.text
    assert ended.outputs["exit-code"] == {"failed": "1", "passed": "0"}[verdict]
    assert {name: value for name, value in ended.outputs.items() if value}.keys() == {"verdict", "exit-code"}
    if verdict == "failed":
        command = step.project.run("compare", "base", "holodeck-results")
        assert command.stdout.splitlines()[0] in ended.log.text
        assert "case 1" in ended.summary
        assert [found.name for found in ended.meant if found.name == "error"] == ["error"] * (code == 1)
    # The records are those of before, and nothing else is published.
    assert (step.project.folder / "holodeck-results/results.json").is_file()
    assert "### Published" not in ended.summary


@pytest.mark.needs("history")
def test_runs_of_a_history_are_compared(step: Step) -> None:
    for wrong in (frozenset[int](), frozenset({1})):
        step.project.numbered(4, wrong)
        step.project.run("run", "-o", "out", "--history", "past")
    ended = step.run({"command": "compare", "history": "past", "args": "-2\n-1"})
    assert (ended.code, ended.outputs["verdict"]) == (1, "failed"), ended.text
    assert "case 1" in ended.summary


@pytest.mark.parametrize(("form", "output"), [("html", "html-path"), ("markdown", "report-path")])
def test_the_report_of_a_comparison_is_written(step: Step, form: str, output: str) -> None:
    ended = compared(step, {}, "base", f"--format {form}", f"--output out.{form}", "--no-summary")
    assert (ended.code, ended.outputs[output], ended.summary) == (1, f"out.{form}", "")
    step.project.run("compare", "base", "holodeck-results", "--format", form, "-o", f"again.{form}")
    written, again = (step.project.folder / f"{name}.{form}" for name in ("out", "again"))
    assert written.read_bytes() == again.read_bytes()


@pytest.mark.parametrize(
    ("inputs", "lines", "sentence"),
    [
        (
            {},
            (),
            "args: command compare needs the line BASE, and optionally HEAD, each a results.json or its folder; "
            "there are 0",
        ),
        ({}, ("a", "b", "c"), "there are 3 such lines"),
        ({}, ("absent",), "absent: cannot be read"),
        ({}, ("base", "--format html"), "args: --format html: the log shows no pages; add --output FILE"),
        ({"history": "branch:runs"}, ("base",), "input history: command compare needs a folder, not a branch"),
        ({"target": "model"}, ("base",), "input target: cannot be combined with command compare"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    step: Step, inputs: dict[str, str], lines: tuple[str, ...], sentence: str
) -> None:
    ended = compared(step, inputs, *lines)
    assert (ended.code, ended.outputs["verdict"]) == (2, "invalid")
    assert sentence in ended.text
    assert (step.project.folder / "holodeck-results/results.json").is_file()


@pytest.mark.parametrize("secret", ["hT5kQ9vB2xW8mN3c", "ghs_token-of-the-job"])
def test_a_secret_in_args_is_shown_nowhere(step: Step, secret: str) -> None:
    step.project.numbered(1)
    ended = step.run({"args": f"--check-name {secret}"}, API_KEY="hT5kQ9vB2xW8mN3c")
    assert ended.code == 2
    assert "args: --check-name ***: holds a secret" in ended.text
    assert secret not in ended.text + ended.summary
    assert [command for command in ended.meant if command.name == "error" and secret in command.data] == []


@pytest.mark.parametrize("broken", ["missing", "unset", "folder", "pipe"])
def test_files_that_cannot_be_written_change_no_verdict(step: Step, broken: str) -> None:
    step.project.numbered(2, frozenset({0}))
    pipe = step.files / "pipe"
    os.mkfifo(pipe)
    files = {"missing": str(step.files / "gone" / "file"), "unset": None, "folder": str(step.files), "pipe": str(pipe)}
    file = files[broken]
    ended = step.run(GITHUB_OUTPUT=file, GITHUB_STEP_SUMMARY=file)
    assert ended.code == 1
    notes = [line for line in ended.log.text if line.startswith("note: ") and "GITHUB_EVENT_NAME" not in line]
    assert len(notes) == 2, notes
    assert "the step has no outputs" in notes[0]
    assert "there is no job summary" in notes[1]


def test_the_summary_can_be_left_out(step: Step) -> None:
    step.project.numbered(1)
    assert step.run({"summary": "false"}).summary == ""


@pytest.mark.full
@pytest.mark.parametrize("before", [0, SUMMARY_LIMIT - 5_000])
def test_the_summary_stays_within_what_github_shows(step: Step, before: int) -> None:
    count = 150
    names = [f"case {n}" for n in range(count)]
    answer = "``` **wrong** <b>@octocat</b> #12 " * 600
    step.project.suite([{"name": name, "input": "?", "ground_truth": "!"} for name in names])
    step.project.answers([{"case": name, "response": answer} for name in names])
    step.project.policy(target="recorded:answers.jsonl")
    step.summary_file.write_text("x" * before)
    ended = step.run()
    assert ended.code == 1
    assert before + 300 < len(ended.summary.encode()) <= SUMMARY_LIMIT


@pytest.mark.full
def test_a_template_makes_report_and_summary(step: Step) -> None:
    step.project.numbered(2, frozenset({1}))
    step.project.write("short.j2", "Own words: {{ report.counts.failed }} failed")
    ended = step.run({"template": "short.j2"})
    assert ended.report == "Own words: 1 failed"
    assert (step.project.folder / ended.outputs["report-path"]).read_text().strip() == "Own words: 1 failed"
    step.project.write("short.j2", "{% for %}::error::x")
    step.summary_file.unlink()
    step.output_file.unlink()
    ended = step.run({"template": "short.j2"})
    assert ended.code == 1
    assert len([line for line in ended.log.text if line.startswith("note: short.j2")]) == 1
    assert "case 1" in ended.summary
    step.output_file.unlink()
    ended = step.run({"template": "missing.j2"})
    assert (ended.code, ended.outputs["verdict"]) == (2, "invalid")
    assert "missing.j2: cannot be read: No such file or directory" in ended.text


def test_the_workspace_is_where_paths_start(step: Step, tmp_path_factory: pytest.TempPathFactory) -> None:
    step.project.numbered(1)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    ended = step.run(cwd=elsewhere)
    assert ended.code == 0
    assert (step.project.folder / ended.outputs["results-path"]).is_file()
    assert list(elsewhere.iterdir()) == []
    absolute = step.project.folder / "absolute"
    step.output_file.unlink()
    assert step.run({"output_dir": str(absolute)}).outputs["results-path"] == "absolute/results.json"


def test_a_workspace_that_is_not_there_is_named(step: Step) -> None:
    ended = step.run(GITHUB_WORKSPACE=str(step.files / "nowhere"))
    assert ended.code == 2
    assert "nowhere' cannot be entered: No such file or directory" in ended.text


def test_inputs_and_args_are_between_flags_and_the_policy_file(step: Step) -> None:
    step.project.numbered(4, frozenset({0, 1}))
    step.project.policy(target="recorded:answers.jsonl", gates={"min_pass_rate": 1.0})
    assert step.run().code == 1
    step.output_file.unlink()
    assert step.run({"min_pass_rate": "0.5"}).code == 0
    step.output_file.unlink()
    step.project.policy(target="recorded:answers.jsonl", gates={"min_pass_rate": 0.1})
    assert step.run().code == 0
    step.output_file.unlink()
    assert step.run({"min_pass_rate": "1"}).code == 1
    # A command has no `args`, and refuses an option as an input, as the step does.
    assert step.run({"min_pass_rate": "1"}, arguments=("run",)).code == 0
    assert step.run(None, None, ("run",), **{"INPUT_MIN-PASS-RATE": "1"}).code == 2
    assert step.run({"case": "case 2\ncase 3\n"}, arguments=("run", "--min-pass-rate", "1")).code == 0


def test_zero_is_a_value(step: Step) -> None:
    step.project.numbered(2)
    step.project.answers([{"case": "case 0", "response": "0"}])
    rates = {"min_pass_rate": "0", "min_completeness": "0"}
    assert step.run({**rates, "max_errors": "1"}).code == 0
    step.output_file.unlink()
    assert step.run({**rates, "max_errors": "0"}).code == 1


def test_with_arguments_it_is_the_command_line(step: Step) -> None:
    step.project.numbered(1)
    ended = step.run(arguments=("--version",))
    assert (ended.code, ended.outputs) == (0, {})
    assert b"holodeck-action, version" in ended.output
    assert step.run({"target": "nonsense"}, arguments=("run",)).code == 2


def test_outside_of_actions_it_is_the_command_line(step: Step) -> None:
    ended = step.run(arguments=("--help",), GITHUB_ACTIONS=None)
    assert b"Usage:" in ended.output


@pytest.mark.proves("run: --fail-on")
@pytest.mark.parametrize("flags", [(), ("--fail-on", "violation")])
def test_the_flag_does_what_the_input_does(step: Step, flags: tuple[str, ...]) -> None:
    step.project.numbered(1, frozenset({0}))
    assert step.project.run("run", "-o", "out", *flags).code == 1
    assert step.project.run("run", "-o", "out", "--fail-on", "never").code == 0
    assert step.project.verdict()["exit_code"] == 1


def test_every_input_reaches_the_run(step: Step) -> None:
    """Inputs that choose and shape: a value of each is seen in the record."""
    step.project.suite(
        [{"name": f"case {n}", "input": "?", "ground_truth": str(n)} for n in range(6)],
        metrics=[{"type": "standard", "metric": "equality"}],
    )
    step.project.policy(cases={f"case {n}": {"tags": ["even" if n % 2 == 0 else "odd"]} for n in range(6)})
    answers = [{"case": f"case {n}", "trial": trial, "response": str(n)} for n in range(6) for trial in (0, 1)]
    step.project.answers(answers, "other.jsonl")
    ended = step.run(
        {
            "target": "recorded:other.jsonl",
            "case": "case [0-4]",
            "tag": "even\nodd",
            "limit": "3",
            "repeat": "2",
            "min_pass": "2",
            "min_pass_rate": "0.9",
            "min_pass_rate_lower_bound": "0.1",
            "min_completeness": "0.8",
            "max_errors": "1",
            "max_flaky": "2",
            "output_dir": "out",
        }
    )
    assert ended.code == 0, ended.text
    record = read_record(Path(step.project.folder / "out/results.json"))
    assert record.provenance.target == "recorded:other.jsonl"
    assert record.provenance.filters == {"case": ["case [0-4]"], "tag": ["even", "odd"], "limit": 3}
    assert [(case.name, case.repeat, case.min_pass) for case in record.cases] == [(f"case {n}", 2, 2) for n in range(3)]
    gates = record.gates
    assert (gates.min_pass_rate, gates.min_pass_rate_lower_bound, gates.min_completeness) == (0.9, 0.1, 0.8)
    assert (gates.max_errors, gates.max_flaky) == (1, 2)


@pytest.mark.parametrize("name", ["suite", "inputs"])
def test_a_step_that_is_refused_leaves_no_old_results(step: Step, name: str) -> None:
    step.project.numbered(2)
    assert step.run().code == 0
    folder = step.project.folder / "holodeck-results"
    assert (folder / "verdict.json").exists()
    step.output_file.unlink()
    if name == "suite":
        step.project.suite([])
    ended = step.run({"min_pass_rate": "2"} if name == "inputs" else {})
    assert ended.code == 2
    assert [path.name for path in folder.iterdir()] == ["previous"]
    assert ended.outputs["results-path"] == ended.outputs["verdict-path"] == ""


def test_the_page_is_named_and_links_to_the_run(step: Step) -> None:
    step.project.numbered(2, wrong=frozenset({0}))
    ended = step.run(GITHUB_RUN_ID="77")
    assert ended.outputs["html-path"] == "holodeck-results/report.html"
    written = step.project.folder / "holodeck-results" / "report.html"
    found = Page(written.read_text(encoding="utf-8"))
    assert found.head["run"]["run_url"] == "https://github.com/octo/shop/actions/runs/77"
    assert "[All cases](https://github.com/octo/shop/actions/runs/77#artifacts): `report.html`" in ended.summary
    step.output_file.unlink()
    ended = step.run({"html": "false"})
    assert ended.outputs["html-path"] == ""
    assert not written.exists()
