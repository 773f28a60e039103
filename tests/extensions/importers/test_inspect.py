"""Tasks of Inspect are imported, and their scorers decide about answers as they do there."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.commands.project import Project
from tests.extensions.importers.accounts import account

pytestmark = pytest.mark.full
HEAD = """\
from inspect_ai import Task, eval, task
from inspect_ai.dataset import FieldSpec, MemoryDataset, Sample, csv_dataset, hf_dataset, json_dataset
from inspect_ai.scorer import accuracy, includes, match, model_graded_qa, pattern, scorer
from inspect_ai.solver import chain_of_thought, generate, system_message
import company
"""
# Scorers, an answer to the target "Paris." that passes, and one that does not.
SCORERS = [
    ("includes()", "It is paris.", "Lyon"),
    ("includes(False)", "It is Paris.", "It is paris."),
    ("match()", "It is PARIS!", "Paris it is"),
    ("match('begin')", "(Paris) it is", "It is Paris"),
    ("match(location='any')", "So Paris it is", "Lyon"),
    ("match('exact', ignore_case=False)", "'Paris'", "paris"),
]
UNFIT = {
    "Task(json_dataset('q.json'), scorer=pattern('x'))": ("pattern", "no equal with these arguments"),
    "Task(json_dataset('q.json'), scorer=match(numeric=True))": ("match", "no equal with these arguments"),
    "Task(json_dataset('q.json'), scorer=match(location=company.place()))": ("match", "known only at run time"),
    "Task(json_dataset('q.json'), scorer=model_graded_qa('my {question}'))": ("model_graded_qa", "no equal"),
    "Task(json_dataset('q.json'), scorer=company.scorer())": ("scorer", "no equal"),
    "Task(json_dataset('q.json'), scorer=own())": ("scorer", "no equal"),
    "Task(json_dataset('q.json'))": ("scorer", "no equal"),
    "Task(json_dataset('q.json'), solver=[chain_of_thought(), generate()], scorer=match())": (
        "chain_of_thought",
        "target",
    ),
    "Task(json_dataset('q.json'), solver=system_message('a {b}'), scorer=match())": ("system_message", "target"),
    "Task(json_dataset('q.json'), scorer=match(), sandbox='docker')": ("sandbox", "no such setting"),
    "Task(json_dataset('q.json'), scorer=match(), epochs=company.epochs())": ("epochs", "no such setting"),
    "Task(hf_dataset('a/b'), scorer=match())": ("dataset", "known only at run time"),
    "Task(json_dataset('s3://a/b.json'), scorer=match())": ("dataset", "not a file of the checkout"),
    "Task(json_dataset('q.json', shuffle=True, limit=1), scorer=match())": ("dataset", "name the arguments"),
    "Task(json_dataset('none.json'), scorer=match())": ("dataset", "FileNotFoundError"),
    "Task([Sample(input='a', target='b', choices=['c'])], scorer=match())": ("choices", "no such field"),
    "Task([Sample(input=company.text(), target='b')], scorer=match())": ("input", "not one message"),
    "Task([Sample(input='a')], scorer=match())": ("match", "no target"),
    "Task([Sample(input='a', target='...')], scorer=match())": ("match", "every answer passes"),
    "1 / 0": ("dataset", "ZeroDivisionError"),
}


def imported(project: Project, tasks: list[str], code: int, *options: str) -> list[dict[str, Any]]:
    """Import a file with a task for each expression; the suites must be valid."""
    own = "@scorer(metrics=[accuracy()])\ndef own():\n    pass\n"
    made = [f"@task\ndef t{number}(n=2):\n    return {text}\n" for number, text in enumerate(tasks)]
    project.write("evals/tasks.py", "\n".join([HEAD, own, *made, "if __name__ == '__main__':\n    eval(t0())\n"]))
    finished = project.run("import", "inspect", "evals/tasks.py", "-o", "new", "--report", "account.json", *options)
    assert finished.code == code, finished.stdout + finished.stderr
    validated = project.run("validate", "new/*" if len(tasks) > 1 else "new", OPENAI_API_KEY="none")
    assert validated.code == 0, validated.stderr
    return account(project)


def test_scorers_decide_about_answers_as_in_inspect(project: Project) -> None:
    rows = [{"question": "Which city?", "answer": "Paris.", "id": name} for name in ("right", "wrong")]
    project.write("evals/q.jsonl", "".join(f"{json.dumps(row)}\n\n" for row in rows))
    project.write("evals/q.csv", "id;question;answer\nright;Which city?;Paris.\nwrong;Which city?;Paris.\n")
    fields = "FieldSpec(input='question', target='answer')"
    sources = [f"json_dataset('q.jsonl', {fields})", f"csv_dataset('q.csv', {fields}, delimiter=';')"]
    sources.append(
        "json_dataset('q.jsonl', lambda row: [Sample(input=row['question'], target='Paris.', id=row['id'])])"
    )
    sources.append("MemoryDataset([Sample('Which city?', target='Paris.', id=name) for name in ('right', 'wrong')])")
    solver = "solver=[system_message('Be brief.'), generate()]"
    tasks = [f"Task({sources[at % 4]}, {solver}, scorer={each})" for at, (each, *_) in enumerate(SCORERS)]
    assert {row["outcome"] for row in imported(project, tasks, 0)} == {"metric", "grader", "similar"}
    for at, (_, right, wrong) in enumerate(SCORERS):
        suite = yaml.safe_load((project.folder / f"new/t{at}/agent.yaml").read_text())
        assert suite["instructions"] == {"inline": "Be brief."}
        answers = [{"case": "right", "response": right}, {"case": "wrong", "response": wrong}]
        project.answers(answers, f"new/t{at}/answers.jsonl")
        finished = project.run("run", f"new/t{at}", "--target", f"recorded:new/t{at}/answers.jsonl", "-o", "out")
        assert finished.code == 1, finished.stderr
        found = [case["outcome"] for case in project.verdict()["cases"]]
        assert found == ["passed", "failed"], (SCORERS[at], finished.stdout + finished.stderr)


def test_what_has_no_equal_is_named_and_cannot_pass(project: Project) -> None:
    project.write("evals/q.json", json.dumps([{"input": "Which city?", "target": "Paris"}]))
    rows = imported(project, [*UNFIT], 1)
    lines = (project.folder / "evals/tasks.py").read_text().splitlines()
    missing = {row["line"]: (row["source"], row["note"]) for row in rows if row["outcome"] == "missing"}
    for text, (source, note) in UNFIT.items():
        [at] = [number for number, line in enumerate(lines, 1) if line == f"    return {text}"]
        found = missing.get(at, ("", ""))
        assert found[0] == source, (text, missing)
        assert note in found[1], (text, found)
    for at in range(len(UNFIT)):
        case = yaml.safe_load((project.folder / f"new/t{at}/agent.yaml").read_text())["test_cases"][0]
        assert any("not imported" in str(metric.get("name")) for metric in case["evaluations"]), at
    graded = "Task(json_dataset('q.json'), scorer=model_graded_qa(), epochs=3)"
    (project.folder / "new").rename(project.folder / "old")
    (project.folder / "account.json").unlink()
    assert ("model_graded_qa", "geval") in [(row["source"], row["becomes"]) for row in imported(project, [graded], 0)]
    assert yaml.safe_load((project.folder / "new/holodeck-action.yaml").read_text()) == {"trials": {"repeat": 3}}
    project.write("evals/none.py", "x = 1\n")
    refused = project.run("import", "inspect", "evals/none.py", "-o", "none")
    assert (refused.code, "has no task" in refused.stderr) == (2, True)
