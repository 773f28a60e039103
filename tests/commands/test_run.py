"""`run`: exit codes and their precedence, several suites, filters, trials, settings."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.record.result_files import read_record
from tests.commands.project import Project

NO_KEY = {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}


def outcomes(project: Project, folder: str = "out") -> dict[str, str]:
    verdict = json.loads((project.folder / folder / "verdict.json").read_bytes())
    return {case["id"]: case["outcome"] for case in verdict["cases"]}


def place(project: Project, folder: str, wrong: bool = False, name: str = "tested", **policy: Any) -> None:
    """A suite of one case in a folder of its own."""
    suite = {
        "name": name,
        "model": {"provider": "openai", "name": "gpt-4o"},
        "instructions": {"inline": "Answer."},
        "evaluations": {"metrics": [{"type": "standard", "metric": "equality"}]},
        "test_cases": [{"name": f"of {folder}", "input": "what is 1?", "ground_truth": "1"}],
    }
    project.write(f"{folder}/agent.yaml", json.dumps(suite))
    project.answers([{"case": f"of {folder}", "response": "2" if wrong else "1"}], name=f"{folder}/answers.jsonl")
    project.write(f"{folder}/holodeck-action.yaml", json.dumps({"target": "recorded:answers.jsonl", **policy}))


# -- exit codes


@pytest.mark.parametrize(
    ("wrong", "lost", "code", "outcome"),
    [
        (frozenset[int](), frozenset[int](), 0, "passed"),
        (frozenset({1}), frozenset[int](), 1, "failed"),
        (frozenset[int](), frozenset({2}), 3, "incomplete"),
        (frozenset({1}), frozenset({2}), 1, "failed"),
        (frozenset[int](), frozenset({0, 1, 2}), 3, "incomplete"),
    ],
)
def test_exit_code(project: Project, wrong: frozenset[int], lost: frozenset[int], code: int, outcome: str) -> None:
    project.numbered(3, wrong)
    rows = (project.folder / "answers.jsonl").read_text().splitlines()
    project.write("answers.jsonl", "".join(row + "\n" for n, row in enumerate(rows) if n not in lost) or "\n{}\n")
    finished, _ = project.evaluate()
    assert finished.code == code, finished.stdout
    assert (project.verdict()["exit_code"], project.verdict()["outcome"]) == (code, outcome)
    assert f"\n{outcome.upper()}: " in finished.stdout


def test_a_suite_without_cases_passes_only_when_asked(project: Project) -> None:
    project.suite([])
    project.answers([{"case": "x", "response": "1"}])
    project.policy(target="recorded:answers.jsonl")
    refused = project.run("run")
    assert refused.code == 2
    assert "the suite has no cases" in refused.stderr
    allowed = project.run("run", "--allow-empty")
    assert allowed.code == 0
    assert "the suite has no cases, which allow-empty permits" in allowed.stdout


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("recorded:none.jsonl", "agent.yaml: target: transcript none.jsonl does not exist"),
        ("recorded:agent.yaml/x", "agent.yaml: target: transcript agent.yaml/x "),
        ("recorded:.", "agent.yaml: target: transcript . is not a regular file"),
        (
            "command:no-such-program --x",
            "agent.yaml: target: command not found: no-such-program (it is not on the PATH)",
        ),
        ("command:'", "agent.yaml: target: the command is wrongly quoted"),
        ("python:nowhere:answer", "agent.yaml: target: nowhere:answer: there is no module nowhere"),
        ("python:empty:answer", "agent.yaml: target: empty:answer: "),
        ("python:broken:answer", "agent.yaml: target: broken:answer: importing broken raised ValueError: no key"),
        ("python:number:answer", "agent.yaml: target: number:answer: "),
        ("ftp://x", "agent.yaml: --target: must be recorded:PATH"),
        ("http://", "agent.yaml: --target: must be"),
    ],
)
def test_a_target_that_cannot_be_used_is_refused_before_anything_runs(
    project: Project, target: str, sentence: str
) -> None:
    project.numbered(2)
    project.write("empty.py", "")
    project.write("broken.py", "raise ValueError('no key')")
    project.write("number.py", "answer = 42")
    finished = project.run("run", "-o", "out", "--target", target)
    assert finished.code == 2
    assert finished.stdout == ""
    assert sentence in finished.stderr
    assert not (project.out / "results.json").exists()
    if not sentence.startswith("agent.yaml: --target"):
        project.policy(target=target)
        checked = project.run("validate")
        assert checked.code == 2
        # The file that names it is the one to mend.
        assert sentence.replace("agent.yaml: ", "holodeck-action.yaml:2:12: ", 1) in checked.stderr


def test_without_a_target_the_suites_model_needs_its_key(project: Project) -> None:
    project.numbered(1)
    project.policy()
    finished = project.run("run", **NO_KEY)
    assert finished.code == 2
    assert "agent.yaml: target: OpenAI needs a key for the model gpt-4o, but none is set: " in finished.stderr
    assert "set the environment variable OPENAI_API_KEY" in finished.stderr
    assert project.run("validate", **NO_KEY).code == 0


@pytest.mark.needs
def test_every_metric_that_nobody_can_judge_is_refused_with_its_place(project: Project) -> None:
    project.suite(
        [
            {"name": "a", "input": "q", "ground_truth": "1"},
            {"name": "b", "input": "q", "evaluations": [{"type": "rag", "metric_type": "answer_relevancy"}]},
        ],
        [{"type": "standard", "metric": "equality"}, {"type": "geval", "name": "Tone", "criteria": "polite"}],
    )
    project.answers([{"case": "a", "response": "1"}])
    finished = project.run("run", "--target", "recorded:answers.jsonl")
    assert finished.code == 2
    lines = finished.errors
    assert [line.split(": ")[1] for line in lines] == ["Tone", "answer_relevancy"]
    for line in lines:
        number = int(line.split(":")[1])
        assert '"type":' in (project.folder / "agent.yaml").read_text().splitlines()[number]
        assert "OpenAI needs a key for the model gpt-4o" in line
        assert line.endswith("or set enabled: false to leave it out")


@pytest.mark.parametrize("folder", ["agent.yaml", "agent.yaml/below", "/proc/none/here"])
def test_results_that_cannot_be_written_are_refused_before_anything_runs(project: Project, folder: str) -> None:
    project.numbered(1)
    finished = project.run("run", "-o", folder)
    assert finished.code == 2
    assert finished.stdout == ""
    assert f"{folder}: results cannot be written here: " in finished.stderr
    assert "--output-dir" in finished.stderr


@pytest.mark.parametrize("name", ["results.json", "verdict.json", "journal.jsonl"])
def test_a_folder_in_the_way_of_a_file_is_refused(project: Project, name: str) -> None:
    project.numbered(1)
    (project.out / name).mkdir(parents=True)
    finished = project.run("run", "-o", "out")
    assert finished.code == 2
    assert f"out/{name}: cannot be replaced: " in finished.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--min-pass-rate", "nan"], "nan is not a finite number"),
        (["--min-pass-rate", "1.1"], "1.1 is not in the range 0.0<=x<=1.0"),
        (["--turn-timeout", "nan"], "nan is not a finite number"),
        (["--run-timeout", "inf"], "inf is not a finite number"),
        (["--case-timeout", "0"], "0.0 is not in the range x>0.0"),
        (["--concurrency", "0"], "0 is not in the range x>=1"),
        (["--max-errors", "-1"], "-1 is not in the range x>=0"),
        (["--limit", "none"], "'none' is not a valid integer"),
        (["--resume"], "--resume needs the --output-dir"),
        (["--repeat", "2", "--min-pass", "3"], "3"),
        (["--min-pass", "2"], "case 'case-0' would need 2 passing trials of 1"),
        (
            ["--min-pass-rate-lower-bound", "0.9"],
            "min_pass_rate_lower_bound 0.9 cannot be reached with 3 case(s), "
            "not counting those that are quarantined or cannot fail",
        ),
        (["--failed-from", "none.json"], "none.json: cannot be read: No such file or directory"),
        (["--env-file", "none.env"], "none.env: cannot be read: No such file or directory"),
        (["--unknown"], "No such option"),
        (["nowhere/agent.yaml"], "nowhere/agent.yaml: no such suite"),
        (["*.nothing"], "*.nothing: no such suite"),
        (["--case", "none"], "--case 'none' matches no case"),
        (["--case", "case*", "--case", "cose*"], "--case 'cose*' matches no case"),
        (["--tag", "none"], "--tag 'none' is not a tag of any case"),
    ],
)
def test_usage_that_makes_no_sense_is_refused(project: Project, arguments: list[str], sentence: str) -> None:
    project.numbered(3)
    finished = (
        project.run("run", "-o", "out", *arguments) if "--resume" not in arguments else project.run("run", *arguments)
    )
    assert finished.code == 2, finished.stdout
    assert finished.stdout == ""
    assert sentence in finished.stderr
    assert not (project.out / "results.json").exists()


# -- results of an earlier run


@pytest.mark.races
def test_results_of_an_earlier_run_never_stand_in_for_this_one_s(project: Project) -> None:
    written = ("results.json", "verdict.json")
    project.numbered(2)
    assert project.run("run", "-o", "out").code == 0
    project.policy(target="command:sleep 600")
    process = project.start("run", "-o", "out")
    try:
        project.wait_until(lambda: not any((project.out / name).exists() for name in written))
    finally:
        process.kill()
        process.communicate()
    assert not any((project.out / name).exists() for name in written)


def test_a_refused_run_loses_no_earlier_results(project: Project) -> None:
    project.numbered(2)
    assert project.run("run", "-o", "out").code == 0
    before = (project.out / "results.json").read_bytes()
    assert project.run("run", "-o", "out", "--target", "recorded:none").code == 2
    assert (project.out / "previous" / "results.json").read_bytes() == before


# -- several suites


def test_several_suites_write_into_their_own_folders_beside_one_verdict(project: Project) -> None:
    place(project, "shop/refunds", name="refunds")
    place(project, "shop/orders", name="orders", wrong=True)
    finished = project.run("run", "-o", "out", "shop/*/agent.yaml")
    assert finished.code == 1
    assert finished.stdout.index("Suite orders (shop/orders/agent.yaml)") < finished.stdout.index("Suite refunds")
    assert "FAILED: orders · " in finished.stdout
    assert "PASSED: refunds · 1 of 1 passed" in finished.stdout
    combined = json.loads((project.out / "verdict.json").read_bytes())
    assert combined["exit_code"] == 1
    assert [(suite["suite"], suite["folder"], suite["exit_code"]) for suite in combined["suites"]] == [
        ("orders", "shop-orders", 1),
        ("refunds", "shop-refunds", 0),
    ]
    assert combined["not_run"] == []
    assert outcomes(project, "out/shop-orders") == {"of-shop-orders": "failed"}
    assert outcomes(project, "out/shop-refunds") == {"of-shop-refunds": "passed"}
    assert not list(project.out.rglob("journal*"))


def test_the_same_suite_given_twice_runs_once(project: Project) -> None:
    place(project, "one")
    project.write("no-suite/notes.txt", "")
    finished = project.run("run", "-o", "out", "one", "one/agent.yaml", "*/agent.yaml", "*o*", "o[n]e")
    assert finished.code == 0
    assert finished.stdout.count("Suite tested") == 1
    assert (project.out / "results.json").exists()


def test_suites_of_one_folder_keep_apart(project: Project) -> None:
    place(project, "one")
    project.write("one/other.yaml", (project.folder / "one/agent.yaml").read_bytes())
    finished = project.run("run", "-o", "out", "one/agent.yaml", "one/other.yaml")
    assert finished.code == 0, finished.stderr
    folders = sorted(path.parent.name for path in project.out.rglob("results.json"))
    assert len(folders) == 2


@pytest.mark.parametrize("last", ["invalid", "no target", "missing transcript", "python", "grader", "filter"])
def test_one_suite_that_cannot_run_keeps_all_from_running(project: Project, last: str) -> None:
    place(project, "a")
    place(project, "b")
    sentence = ""
    match last:
        case "invalid":
            project.write("b/agent.yaml", "name: b\n")
            sentence = "b/agent.yaml:"
        case "no target":
            project.write("b/holodeck-action.yaml", "{}")
            sentence = "b/agent.yaml: target: OpenAI needs a key for the model gpt-4o, but none is set"
        case "missing transcript":
            (project.folder / "b/answers.jsonl").unlink()
            sentence = "b/holodeck-action.yaml:1:12: target: transcript answers.jsonl does not exist"
        case "python":
            project.write("b/holodeck-action.yaml", '{"target": "python:nowhere:answer"}')
            sentence = "b/holodeck-action.yaml:1:12: target: nowhere:answer: there is no module"
        case "grader":
            project.write(
                "b/holodeck-action.yaml",
                '{"target": "recorded:answers.jsonl", "metrics": [{"type": "code", "grader": "nowhere:grade"}]}',
            )
            sentence = "b/holodeck-action.yaml:1:"
        case "filter":
            sentence = "b/agent.yaml: no case matches --case 'of a'"
    arguments = ["--case", "of a"] if last == "filter" else []
    finished = project.run("run", "-o", "out", "a", "b", *arguments, **NO_KEY)
    assert finished.code == 2
    assert finished.stdout == ""
    assert sentence in finished.stderr
    assert not list(project.folder.rglob("results.json"))


def test_problems_of_all_suites_are_told_at_once(project: Project) -> None:
    place(project, "a")
    place(project, "b")
    for folder in "ab":
        (project.folder / folder / "answers.jsonl").unlink()
    finished = project.run("run", "-o", "out", "a", "b")
    assert finished.code == 2
    places = [line.split(":")[0] for line in finished.errors]
    assert places == ["a/holodeck-action.yaml", "b/holodeck-action.yaml"]


@pytest.mark.parametrize(("wrong", "lost", "code"), [("a", "b", 1), ("", "b", 3), ("b", "a", 1), ("", "", 0)])
def test_the_combined_exit_code_is_the_worst(project: Project, wrong: str, lost: str, code: int) -> None:
    for folder in "ab":
        place(project, folder, wrong=folder == wrong)
        if folder == lost:
            project.answers([{"case": "nobody", "response": "1"}], name=f"{folder}/answers.jsonl")
    finished = project.run("run", "-o", "out", "a", "b")
    assert finished.code == code
    assert json.loads((project.out / "verdict.json").read_bytes())["exit_code"] == code


def test_folders_with_brackets_are_found(project: Project) -> None:
    place(project, "a[1]/x")
    inner = Project(project.folder / "a[1]")
    for arguments in (["x"], ["x/agent.yaml"], ["*/agent.yaml"]):
        assert inner.run("run", *arguments).code == 0
    assert project.run("run", "a[1]/x").code == 0


# -- filters


def tagged(project: Project) -> None:
    project.numbered(6, frozenset({4}))
    project.policy(
        target="recorded:answers.jsonl",
        cases={f"case {n}": {"tags": ["even" if n % 2 == 0 else "odd"]} for n in range(6)},
    )


@pytest.mark.parametrize(
    ("arguments", "chosen"),
    [
        (["--case", "case 1"], [1]),
        (["--case", "case-1"], [1]),
        (["--case", "case [12]"], [1, 2]),
        (["--case", "*3", "--case", "*0"], [0, 3]),
        (["--tag", "odd"], [1, 3, 5]),
        (["--tag", "odd", "--tag", "even", "--limit", "4"], [0, 1, 2, 3]),
        (["--tag", "odd", "--case", "*[35]"], [3, 5]),
        (["--limit", "2"], [0, 1]),
    ],
)
def test_filters_choose_cases_and_the_report_says_so(project: Project, arguments: list[str], chosen: list[int]) -> None:
    tagged(project)
    finished, record = project.evaluate(*arguments)
    assert [case.id for case in record.cases] == [f"case-{n}" for n in chosen]
    assert finished.code == (1 if 4 in chosen else 0)
    # A filtered green is no green of the suite: the reader is told.
    assert f"note: only {len(chosen)} of 6 cases were chosen: --" in finished.stdout
    assert record.provenance.filters


def test_a_name_with_brackets_is_found_by_itself(project: Project) -> None:
    project.suite([{"name": f"case [{n}]", "input": "q", "ground_truth": "1"} for n in range(2)])
    project.answers([{"case": f"case [{n}]", "response": "1"} for n in range(2)])
    project.policy(target="recorded:answers.jsonl")
    _, record = project.evaluate("--case", "case [1]")
    assert [case.name for case in record.cases] == ["case [1]"]


def test_only_what_did_not_pass_is_run_again(project: Project) -> None:
    project.numbered(6, frozenset({1, 4}))
    rows = (project.folder / "answers.jsonl").read_text().splitlines()
    project.write("answers.jsonl", "\n".join(row for n, row in enumerate(rows) if n != 2))
    assert project.run("run", "-o", "first").code == 1
    project.numbered(6, frozenset({4}))
    finished, record = project.evaluate("--failed-from", "first/results.json")
    assert [case.id for case in record.cases] == ["case-1", "case-2", "case-4"]
    assert finished.code == 1
    assert "note: only 3 of 6 cases were chosen: --failed-from (3 cases)" in finished.stdout
    project.numbered(6)
    assert project.run("run", "-o", "second", "--failed-from", "out/results.json").code == 0
    nothing = project.run("run", "-o", "third", "--failed-from", "second/results.json")
    assert nothing.code == 2
    assert "no case failed: there is nothing to run again" in nothing.stderr


def test_a_failed_case_that_is_gone_is_told(project: Project) -> None:
    project.numbered(3, frozenset({0, 2}))
    assert project.run("run", "-o", "first").code == 1
    project.numbered(2)
    finished = project.run("run", "--failed-from", "first/results.json")
    assert finished.code == 0
    assert "note: 1 case(s) of --failed-from are no longer in the suite: case-2" in finished.stdout + finished.stderr


# -- trials


@pytest.mark.parametrize(
    ("answers", "min_pass", "stop", "code", "trials"),
    [
        ("PFP", 2, True, 0, 3),
        ("PPF", 2, True, 0, 2),
        ("PPF", 2, False, 0, 3),
        ("FFP", 2, True, 1, 2),
        ("FFP", 2, False, 1, 3),
        ("FPP", 3, True, 1, 1),
        ("EPP", 2, True, 3, 3),
        ("EFP", 2, True, 3, 3),
        ("EFF", 2, True, 1, 3),
        ("FFP", 1, True, 0, 3),
    ],
)
def test_trials(project: Project, answers: str, min_pass: int, stop: bool, code: int, trials: int) -> None:
    project.suite([{"name": "a", "input": "q", "ground_truth": "1"}])
    rows = [
        {"case": "a", "trial": n, "response": "1" if letter == "P" else "2"}
        for n, letter in enumerate(answers)
        if letter != "E"
    ]
    project.answers(rows)
    project.policy(
        target="recorded:answers.jsonl", trials={"repeat": 3, "min_pass": min_pass, "stop_when_decided": stop}
    )
    finished, record = project.evaluate()
    assert finished.code == code, finished.stdout
    assert len(record.cases[0].trials) == trials


def test_trials_of_flags(project: Project) -> None:
    project.numbered(1)
    project.answers([{"case": "case 0", "trial": n, "response": answer} for n, answer in enumerate("010")])
    assert project.run("run", "--repeat", "3", "--min-pass", "2").code == 0
    assert project.run("run", "--repeat", "3", "--min-pass", "3").code == 1


def test_flags_that_make_half_of_the_trials_enough_say_so(project: Project) -> None:
    project.numbered(2)
    project.answers([{"case": f"case {n}", "trial": trial, "response": str(n)} for n in range(2) for trial in range(4)])
    finished = project.run("run", "--repeat", "4", "--min-pass", "2")
    assert finished.code == 0
    assert (
        "note: half of the trials or fewer are enough for 2 case(s), such as 2 of 4; raise --min-pass to ask for more"
        in finished.stdout
    )
    for enough in ((), ("--min-pass", "3")):
        assert "half of the trials" not in project.run("run", "--repeat", "4", *enough).stdout


SILENT: dict[str, int | None] = {}


@pytest.mark.parametrize(
    ("suite", "case", "flags", "needed"),
    [
        # Whoever says how often says nothing of how many: all of them.
        ({"repeat": 4}, SILENT, (), (4, 4)),
        ({"repeat": 4, "min_pass": None}, SILENT, (), (4, 4)),
        (SILENT, {"repeat": 3}, (), (3, 3)),
        (SILENT, SILENT, ("--repeat", "3"), (3, 3)),
        ({"repeat": 4}, {"repeat": 2}, (), (2, 2)),
        ({"repeat": 4}, SILENT, ("--repeat", "2"), (2, 2)),
        ({"repeat": 2}, {"repeat": 3}, ("--repeat", "4"), (4, 4)),
        # A number that is written stays, wherever the other one is from.
        ({"repeat": 4}, {"min_pass": 2}, (), (4, 2)),
        ({"repeat": 4, "min_pass": 3}, {"min_pass": 2}, (), (4, 2)),
        ({"repeat": 3, "min_pass": 2}, {"repeat": 4}, (), (4, 2)),
        ({"repeat": 3, "min_pass": 2}, {"min_pass": None}, (), (3, 2)),
        ({"repeat": 3, "min_pass": 2}, SILENT, ("--repeat", "4"), (4, 2)),
        ({"repeat": 4}, SILENT, ("--min-pass", "3"), (4, 3)),
        ({"repeat": 4, "min_pass": 1}, {"min_pass": 2}, ("--min-pass", "3"), (4, 3)),
        (SILENT, {"repeat": 3}, ("--repeat", "4", "--min-pass", "2"), (4, 2)),
        # More than there are.
        ({"repeat": 4}, SILENT, ("--min-pass", "5"), "would need 5 passing trials of 4; give --repeat at least 5 or"),
        ({"repeat": 4, "min_pass": 3}, SILENT, ("--repeat", "2"), "would need 3 passing trials of 2; give --repeat"),
        (SILENT, {"repeat": 4, "min_pass": 3}, ("--repeat", "2"), "would need 3 passing trials of 2; give --repeat"),
        ({"repeat": 4}, {"repeat": 2}, ("--min-pass", "3"), "would need 3 passing trials of 2; give --repeat at least"),
        (SILENT, SILENT, ("--repeat", "2", "--min-pass", "3"), "min-pass 3 is more than repeat 2: no case could pass"),
        (SILENT, {"min_pass": 2}, (), 'cases["case 0"].min_pass: more trials must pass than there are (allowed'),
        ({"min_pass": 2}, SILENT, (), "trials.min_pass: more trials must pass than there are (allowed: min_pass from"),
        (
            {"repeat": 4, "min_pass": 3},
            {"repeat": 2},
            (),
            'cases["case 0"].repeat: more trials must pass than there are',
        ),
    ],
)
def test_how_many_trials_must_pass(
    project: Project,
    suite: dict[str, int | None],
    case: dict[str, int | None],
    flags: tuple[str, ...],
    needed: tuple[int, int] | str,
) -> None:
    project.numbered(1)
    project.policy(target="recorded:answers.jsonl", trials=suite, cases={"case 0": case})
    refused = isinstance(needed, str)
    repeat, least = (1, 1) if isinstance(needed, str) else needed
    for passing in (least, least - 1):
        trials = ["0"] * passing + ["wrong"] * (repeat - passing)
        project.answers([{"case": "case 0", "trial": n, "response": answer} for n, answer in enumerate(trials)])
        finished = project.run("run", "-o", "out", *flags)
        assert finished.code == (2 if refused else 0 if passing == least else 1), finished.stderr
        if isinstance(needed, str):
            assert needed in finished.stderr
        else:
            (judged,) = read_record(project.out / "results.json").cases
            assert (judged.repeat, judged.min_pass) == needed


# -- quarantine, weights, settings


def test_quarantine_and_its_end(project: Project) -> None:
    project.numbered(3, frozenset({1}))

    def policy(expires: str) -> None:
        entry = {"case": "case 1", "reason": "upstream search", "owner": "@search", "expires": expires}
        project.policy(target="recorded:answers.jsonl", quarantine=[entry])

    policy("2999-01-01")
    finished, _ = project.evaluate()
    assert finished.code == 0
    assert outcomes(project) == {"case-0": "passed", "case-1": "quarantined", "case-2": "passed"}
    assert "~ case 1  [quarantined (failed)]" in finished.stdout
    assert "quarantined until 2999-01-01: upstream search" in json.dumps(project.verdict())
    policy("2020-01-01")
    finished, _ = project.evaluate()
    assert finished.code == 1
    assert (
        "note: the quarantine of 'case 1' ended on 2020-01-01, so the case counts again (owner @search)"
    ) in finished.stdout


def test_quarantine_of_everything_is_not_green(project: Project) -> None:
    project.numbered(2)
    entries = [{"case": f"case {n}", "reason": "r", "owner": "o", "expires": "2999-01-01"} for n in range(2)]
    project.policy(target="recorded:answers.jsonl", quarantine=entries)
    finished, _ = project.evaluate()
    assert finished.code == 3
    assert "no case could be judged" in finished.stdout


def test_weights_count_in_the_pass_rate(project: Project) -> None:
    project.numbered(2, frozenset({1}))
    project.policy(target="recorded:answers.jsonl", cases={"case 0": {"weight": 3}}, gates={"min_pass_rate": 0.75})
    finished, _ = project.evaluate()
    assert finished.code == 0
    assert project.verdict()["pass_rate"] == 0.75
    assert "1 of 2 passed (75 % by weight), at least 75 % must pass" in finished.stdout


@pytest.mark.parametrize(("hard", "code"), [(False, 3), (True, 1)])
def test_an_evaluation_that_fails_is_soft_unless_asked(project: Project, hard: bool, code: int) -> None:
    project.write("checks.py", "def grade(context):\n    raise ValueError('no')\n")
    metrics: list[dict[str, Any]] = [
        {"type": "standard", "metric": "equality"},
        {"type": "code", "grader": "checks:grade", "fail_on_error": hard},
    ]
    project.suite([{"name": "a", "input": "q", "ground_truth": "1"}], metrics)
    project.answers([{"case": "a", "response": "1"}])
    project.policy(target="recorded:answers.jsonl")
    finished, _ = project.evaluate()
    assert finished.code == code
    assert "it raised ValueError: no" in finished.stdout
    tolerant = project.run("run", "-o", "tolerant", "--min-completeness", "0.5")
    assert tolerant.code == (1 if hard else 0)


def test_variables_come_from_an_env_file(project: Project) -> None:
    project.suite([{"name": "a", "input": "q", "ground_truth": "${ANSWER}"}])
    project.answers([{"case": "a", "response": "forty-two"}])
    project.policy(target="recorded:answers.jsonl")
    project.write("my.env", "ANSWER=forty-two\n")
    refused = project.run("run")
    assert refused.code == 2
    assert "ANSWER" in refused.stderr
    finished = project.run("run", "--env-file", "my.env", CI="true")
    assert finished.code == 0
    assert "forty-two" not in finished.stdout + finished.stderr
    project.write(".env", "ANSWER=forty-two\n")
    assert project.run("run").code == 0
    assert project.run("run", CI="true").code == 2


def test_flags_beat_the_policy_file(project: Project) -> None:
    project.numbered(4, frozenset({0}))
    project.policy(target="recorded:none.jsonl", gates={"min_pass_rate": 1.0}, trials={"repeat": 2, "min_pass": 2})
    finished, record = project.evaluate(
        "--target", "recorded:answers.jsonl", "--min-pass-rate", "0.75", "--repeat", "1", "--min-pass", "1"
    )
    assert finished.code == 0
    assert record.provenance.target == "recorded:answers.jsonl"
    assert record.gates.min_pass_rate == 0.75


# -- wrong greens


def test_an_answer_that_is_empty_is_scored(project: Project) -> None:
    project.suite([{"name": "a", "input": "q", "ground_truth": "1"}])
    project.answers([{"case": "a", "response": ""}])
    project.policy(target="recorded:answers.jsonl")
    finished, _ = project.evaluate()
    assert finished.code == 1
    assert "(empty)" in finished.stdout


def test_a_selection_in_which_nothing_asserts_is_refused(project: Project) -> None:
    informational = [{"type": "standard", "metric": "bleu"}]
    project.suite(
        [
            {"name": "shown", "input": "q", "ground_truth": "1", "evaluations": informational},
            {"name": "checked", "input": "q", "ground_truth": "1"},
        ]
    )
    project.answers([{"case": name, "response": "1"} for name in ("shown", "checked")])
    project.policy(target="recorded:answers.jsonl")
    finished = project.run("run", "--case", "shown")
    assert finished.code == 2
    assert "nothing can fail in the chosen cases" in finished.stderr
    both = project.run("run")
    assert both.code == 0
    assert "informational (without an assertion): shown" in both.stdout


def test_a_gate_on_a_metric_that_never_ran_is_not_green(project: Project) -> None:
    metrics = [{"type": "standard", "metric": "equality"}, {"type": "standard", "metric": "bleu"}]
    project.suite(
        [
            {"name": "a", "input": "q", "ground_truth": "1"},
            {"name": "b", "input": "q", "ground_truth": "1", "evaluations": metrics[:1]},
        ],
        metrics,
    )
    project.answers([{"case": name, "response": "1"} for name in "ab"])
    project.policy(target="recorded:answers.jsonl", gates={"metrics": {"bleu": {"min_mean": 0.0}}})
    assert project.run("run").code == 0
    finished = project.run("run", "--case", "b")
    assert finished.code == 3
    assert "metrics.bleu.min_mean" in finished.stdout
    assert "bleu was evaluated on no case" in finished.stdout


def test_a_summary_over_a_metric_that_was_lost_is_not_green(project: Project) -> None:
    project.write("checks.py", "def grade(context):\n    raise ValueError('no')\n")
    metrics = [{"type": "standard", "metric": "equality"}, {"type": "code", "grader": "checks:grade"}]
    project.suite([{"name": "a", "input": "q", "ground_truth": "1"}], metrics)
    project.answers([{"case": "a", "response": "1"}])
    gates = {"min_completeness": 0.5, "summary": {"method": "simple_average", "min": 0.9}}
    project.policy(target="recorded:answers.jsonl", gates=gates)
    finished = project.run("run")
    assert finished.code == 3
    assert "grade was evaluated on no case" in finished.stdout


def test_a_run_without_a_gate_on_its_answers_says_so(project: Project) -> None:
    project.numbered(2, frozenset({0, 1}))
    note = "note: no gate depends on the answers, so failing cases do not fail this run"
    project.policy(target="recorded:answers.jsonl", gates={"min_pass_rate": None, "max_errors": 0})
    finished = project.run("run")
    assert finished.code == 0
    assert note in finished.stdout
    project.policy(
        target="recorded:answers.jsonl", gates={"min_pass_rate": None, "metrics": {"equality": {"min_mean": 0.5}}}
    )
    gated = project.run("run")
    assert gated.code == 1
    assert note not in gated.stdout


def test_trials_that_say_nothing_do_not_hide_the_ones_that_fail(project: Project) -> None:
    # A grader without a score asserts nothing: one pass of three is neither two passes nor no assertion.
    project.write(
        "checks.py",
        "from holodeck.lib.test_runner.code_grader import GraderResult\n"
        "def grade(context):\n"
        "    score = {'yes': True, 'no': False}.get(context.agent_response)\n"
        "    return GraderResult(score=score, reason='seen')\n",
    )
    project.suite(
        [
            {"name": "a", "input": "q", "evaluations": [{"type": "code", "grader": "checks:grade"}]},
            {"name": "b", "input": "q", "ground_truth": "1"},
        ]
    )
    rows = [{"case": "a", "trial": n, "response": answer} for n, answer in enumerate(("yes", "perhaps", "perhaps"))]
    project.answers([*rows, *({"case": "b", "trial": n, "response": "1"} for n in range(3))])
    project.policy(target="recorded:answers.jsonl", trials={"repeat": 3, "min_pass": 2})
    finished, _ = project.evaluate()
    assert finished.code == 3, finished.stdout
    assert outcomes(project) == {"a": "error", "b": "passed"}
    assert "1 of 3 trials passed, 2 needed: nothing asserted in 2" in finished.stdout


def test_the_record_can_be_read_back_and_is_complete(project: Project) -> None:
    project.numbered(3, frozenset({2}))
    _, record = project.evaluate()
    assert record == read_record(project.out / "results.json")
    assert [len(case.trials) for case in record.cases] == [1, 1, 1]
    assert record.stopped is None
    assert Path(record.suite.file) == Path("agent.yaml")


def test_a_file_whose_name_no_results_file_can_hold_is_refused(project: Project) -> None:
    project.numbered(1)
    odd = os.fsdecode(b"agent\xff.yaml")
    (project.folder / odd).write_bytes((project.folder / "agent.yaml").read_bytes())
    for arguments in (["run", odd], ["run", "agent?.yaml"], ["run", "--target", "recorded:" + odd]):
        finished = project.run(*arguments)
        assert finished.code == 2
        assert "not UTF-8 text; rename" in finished.stderr


@pytest.mark.full
def test_a_log_names_a_thousand_cases_and_says_how_many_more(project: Project) -> None:
    project.numbered(1002, frozenset(range(1002)))
    finished = project.run("run", "-o", "out")
    assert finished.code == 1
    assert sum(line.startswith("✗ case ") for line in finished.stdout.splitlines()) == 1000
    assert "… and 2 more cases that need attention; `holodeck-action report --format csv` lists all" in finished.stdout
