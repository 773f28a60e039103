"""A run in shards that are merged is the run in one piece, and whatever is not all shards of one run is refused."""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holodeck_action.decide.written_results import NO_RELATED_FILES, write_results
from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import read_record
from holodeck_action.reports.conclusion import conclude
from tests.commands.project import Project
from tests.reports.pages import Page

CASES = 23
ROUGE = {"type": "standard", "metric": "rouge", "threshold": 0.5}


@pytest.fixture
def mixed(project: Project) -> Project:
    return write_mixed(project)


def write_mixed(project: Project) -> Project:
    """Cases of one and two turns, some repeated, flaky, wrong, unanswered, cut short or quarantined."""
    cases: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for number in range(CASES):
        name, answer = f"case {number}", "wrong" if number % 7 == 3 else str(number)
        if number % 5 == 1:
            turns = [{"input": f"what is {number}?", "ground_truth": str(number)}, {"input": "sure?"}]
            cases.append({"name": name, "turns": turns})
            rows += [{"case": name, "turn": turn, "response": answer} for turn in (0, 1)]
        else:
            cases.append({"name": name, "input": f"what is {number}?", "ground_truth": str(number)})
            for trial in (0, 1):
                flaky = number == 4 and trial == 1
                rows.append({"case": name, "trial": trial, "response": "wrong" if flaky else answer})
    project.suite(cases, [{"type": "standard", "metric": "equality"}, ROUGE])
    rows = [{**row, "duration_ms": at % 5} for at, row in enumerate(rows) if row["case"] != "case 20"]
    project.answers(rows)
    project.policy(
        target="recorded:answers.jsonl",
        cases={
            "case 4": {"repeat": 2, "min_pass": 1},
            "case 5": {"repeat": 2},
            "case 7": {"tags": ["slow"], "weight": 2},
        },
        quarantine=[{"case": "case 3", "reason": "upstream", "owner": "@team", "expires": "2999-01-01"}],
        gates={"min_pass_rate": 0.6, "metrics": {"rouge": {"min_mean": 0.5}}},
    )
    return project


def run_shards(project: Project, count: int, *more: str, into: str = "shards") -> list[str]:
    """Run every shard; return their folders."""
    folders = [f"{into}/{number}" for number in range(1, count + 1)]
    for number, folder in enumerate(folders, 1):
        finished = project.run("run", "--shard", f"{number}/{count}", "-o", folder, *more)
        assert finished.code == 0, finished.stdout + finished.stderr
    return folders


def canonical(project: Project, folder: str) -> bytes:
    return canonical_json(read_record(project.folder / folder / "results.json"))


def verdict(project: Project, folder: str) -> dict[str, Any]:
    """The verdict of a run, without what differs between any two runs."""
    content = (project.folder / folder / "verdict.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(
        re.sub(r'"(started_at|results_digest|p\d\d_latency_ms)": ?[^,}]*', r'"\1": ""', content)
    )
    return loaded


@pytest.mark.proves("run: --shard", "merge: FOLDERS --output-dir")
@pytest.mark.parametrize("count", [1, 2, 3, 7, 16])
def test_any_number_of_shards_in_any_order_is_the_run_in_one_piece(mixed: Project, count: int) -> None:
    whole = mixed.run("run", "-o", "whole")
    folders = run_shards(mixed, count)
    random.Random(count).shuffle(folders)
    merged = mixed.run("merge", *folders, "-o", "merged")
    assert merged.code == whole.code == 3, merged.stderr
    assert canonical(mixed, "merged") == canonical(mixed, "whole")
    assert verdict(mixed, "merged") == verdict(mixed, "whole")
    report = (mixed.folder / "merged" / "junit.xml").read_text()
    assert report.count("<testcase") == (mixed.folder / "whole" / "junit.xml").read_text().count("<testcase")


def test_shards_have_as_many_cases_whatever_their_order(mixed: Project) -> None:
    parts = [read_record(mixed.folder / folder / "results.json") for folder in run_shards(mixed, 4)]
    ran = [{case.id for case in part.cases if case.trials} for part in parts]
    assert sorted(map(len, ran)) == [5, 6, 6, 6]
    suite = json.loads((mixed.folder / "agent.yaml").read_bytes())
    suite["test_cases"].reverse()
    (mixed.folder / "agent.yaml").write_text(json.dumps(suite))
    again = [read_record(mixed.folder / folder / "results.json") for folder in run_shards(mixed, 4, into="reversed")]
    assert [{case.id for case in part.cases if case.trials} for part in again] == ran


def test_a_shard_alone_has_no_verdict(mixed: Project) -> None:
    finished = mixed.run("run", "--shard", "2/4", "-o", "part")
    assert finished.code == 0
    assert "this shard is done; holodeck-action merge judges all shards together" in finished.stderr
    alone = verdict(mixed, "part")
    assert (alone["outcome"], alone["exit_code"]) == ("stopped", 4)
    assert re.search(r"this is shard 2/4 with [56] of 23 cases", alone["reason"])
    assert mixed.run("decide", "part/results.json").code != 0
    ran = [case.name for case in read_record(mixed.folder / "part" / "results.json").cases if case.trials]
    shown = set(re.findall(r"case \d+", (mixed.folder / "part" / "report.md").read_text()))
    assert shown <= {name or "" for name in ran}


@pytest.mark.full
@pytest.mark.races
def test_a_killed_shard_is_continued_and_merged(project: Project) -> None:
    project.numbered(12, wrong=frozenset({3}))
    project.policy(target="python:agent:answer")
    project.write(
        "agent.py",
        "import os, time\n"
        "def answer(messages):\n"
        "    number = messages[-1]['content'][8:-1]\n"
        "    with open('asked', 'a') as file: file.write('.')\n"
        "    if os.path.exists('hold') and os.path.getsize('asked') > 4: time.sleep(600)\n"
        "    return number if number != '3' else 'wrong'\n",
    )
    assert project.run("run", "-o", "whole").code == 1
    shutil.rmtree(project.folder / "__pycache__", ignore_errors=True)
    journal = project.folder / "shards" / "1" / "journal.jsonl"
    (project.folder / "asked").unlink()
    project.write("hold", "")
    process = project.start("run", "--shard", "1/2", "-o", "shards/1", "--concurrency", "1")
    project.wait_until(lambda: journal.exists() and journal.read_bytes().count(b"\n") == 5)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (project.folder / "hold").unlink()
    assert project.run("run", "--shard", "2/2", "-o", "shards/2").code == 0
    unfinished = project.run("merge", "shards", "-o", "merged")
    assert unfinished.code == 2
    assert "shards/1/journal.jsonl: the shard has not ended; run it again with --resume" in unfinished.stderr
    other = project.run("run", "--shard", "2/2", "-o", "shards/1", "--resume")
    assert other.code == 2
    assert "shard" in other.stderr
    assert project.run("run", "--shard", "1/2", "-o", "shards/1", "--resume").code == 0
    assert read_record(project.folder / "shards" / "1" / "results.json").run.resumed_trials == 4
    assert project.run("merge", "shards", "-o", "merged").code == 1
    assert canonical(project, "merged") == canonical(project, "whole")


def test_a_shard_that_was_stopped_makes_a_stopped_run(mixed: Project) -> None:
    run_shards(mixed, 2)
    shutil.rmtree(mixed.folder / "shards" / "1")
    stopped = mixed.run("run", "--shard", "1/2", "-o", "shards/1", "--run-timeout", "0.000001")
    assert stopped.code == 4
    assert mixed.run("merge", "shards", "-o", "merged").code == 4
    assert "shard 1/2: the run deadline" in verdict(mixed, "merged")["reason"]


@pytest.mark.parametrize("beside", [False, True])
def test_shards_are_compared_with_a_base_as_the_run_in_one_piece(mixed: Project, beside: bool) -> None:
    """The base is stored results, by whose durations the cases are spread, or runs beside in shards of its own."""
    assert mixed.run("run", "-o", "base").code == 3
    shutil.copytree(mixed.folder, mixed.folder.parent / "before" / "suite", dirs_exist_ok=True)
    rows = [json.loads(line) for line in (mixed.folder / "answers.jsonl").read_text().splitlines()]
    mixed.answers([{**row, "response": "worse"} if row["case"] in ("case 0", "case 9") else row for row in rows])
    other = mixed.folder / "other"
    other.mkdir()
    for name in ("agent.yaml", "holodeck-action.yaml"):
        shutil.copy(mixed.folder / name, other / name)
    shutil.copy(mixed.folder.parent / "before" / "suite" / "answers.jsonl", other / "answers.jsonl")
    how = ("--against", "other") if beside else ("--baseline", "file:base")
    whole = mixed.run("run", "-o", "whole", *how)
    assert "case 9" in whole.stdout
    run_shards(mixed, 3, *how)
    merged = mixed.run("merge", "shards", "-o", "merged")
    assert merged.code == whole.code == 1, merged.stderr
    assert canonical(mixed, "merged") == canonical(mixed, "whole")
    assert verdict(mixed, "merged") == verdict(mixed, "whole")
    assert canonical(mixed, "merged/base") == canonical(mixed, "whole/base")
    split = read_record(mixed.folder / "shards" / "1" / "results.json").run.shard
    assert split is not None
    assert bool(split.split) is not beside


def test_slow_cases_are_spread(project: Project) -> None:
    """Two cases took a hundred times as long as the others: no shard gets both."""
    project.numbered(12)
    assert project.run("run", "-o", "base").code == 0
    record = read_record(project.folder / "base" / "results.json")

    def lasting(position: int, trial: Any) -> Any:
        return replace(trial, timing=replace(trial.timing, duration_ms=10_000.0 if position < 2 else 100.0))

    cases = tuple(
        replace(case, trials=tuple(lasting(position, trial) for trial in case.trials))
        for position, case in enumerate(record.cases)
    )
    rewritten = replace(record, cases=cases)
    write_results(project.folder / "base", rewritten, conclude(rewritten).verdict, related_files=NO_RELATED_FILES)
    for folder in run_shards(project, 2, "--baseline", "file:base"):
        ran = [case.name for case in read_record(project.folder / folder / "results.json").cases if case.trials]
        assert len({"case 0", "case 1"} & set(ran)) == 1
        assert len(ran) == 6


@pytest.mark.proves("merge: --template --html --fail-on")
def test_the_merge_reports_and_ends_as_a_run_does(mixed: Project) -> None:
    mixed.write("own.md.j2", "{{ report.counts.passed }} of all")
    run_shards(mixed, 2)
    assert mixed.run("merge", "shards", "-o", "with a page").code == 3
    page = Page((mixed.folder / "with a page" / "report.html").read_text(encoding="utf-8"))
    assert len(page.details) == len(read_record(mixed.folder / "with a page" / "results.json").cases)
    given = ("--template", "own.md.j2", "--no-html", "--fail-on", "never")
    finished = mixed.run("merge", "shards", "-o", "merged", *given)
    assert finished.code == 0
    assert not (mixed.folder / "merged" / "report.html").exists()
    passed = verdict(mixed, "merged")["counts"]["passed"]
    assert (mixed.folder / "merged" / "report.md").read_text().strip() == f"{passed} of all"


def test_several_suites_are_merged_into_a_folder_each(project: Project) -> None:
    for name, count in (("one", 5), ("two", 2)):
        each = Project(project.folder / name)
        each.folder.mkdir()
        each.numbered(count, wrong=frozenset({1} if name == "two" else ()))
    whole = project.run("run", "*/agent.yaml", "-o", "whole")
    for number in (1, 2, 3):
        assert project.run("run", "*/agent.yaml", "--shard", f"{number}/3", "-o", f"shards/{number}").code == 0
    assert project.run("merge", "shards", "-o", "merged").code == whole.code == 1
    for name in ("one", "two"):
        assert canonical(project, f"merged/{name}") == canonical(project, f"whole/{name}")
    assert verdict(project, "merged") == verdict(project, "whole")
    shutil.rmtree(project.folder / "shards" / "2" / "two")
    missing = project.run("merge", "shards", "-o", "again")
    assert missing.code == 2
    assert "agent.yaml: shard 2/3 is missing" in missing.stderr


def _rewrite(change: Callable[[Record], Record], number: int = 2) -> Callable[[Project], None]:
    """Make a shard what another run could have written."""

    def make(project: Project) -> None:
        folder = project.folder / "shards" / str(number)
        record = change(read_record(folder / "results.json"))
        write_results(folder, record, conclude(record).verdict)

    return make


def _again(*flags: str, shard: str = "2/3", edit: Callable[[Project], None] = lambda project: None) -> Any:
    def make(project: Project) -> None:
        edit(project)
        shutil.rmtree(project.folder / "shards" / "2")
        assert project.run("run", "--shard", shard, "-o", "shards/2", *flags).code == 0

    return make


def _edit(name: str, before: str, after: str) -> Callable[[Project], None]:
    def edit(project: Project) -> None:
        text = (project.folder / name).read_text()
        assert before in text
        (project.folder / name).write_text(text.replace(before, after))

    return edit


def _other_split(record: Record) -> Record:
    cases = list(record.cases)
    own = next(at for at, case in enumerate(cases) if case.trials)
    foreign = next(at for at, case in enumerate(cases) if not case.trials)
    cases[foreign] = replace(cases[foreign], trials=cases[own].trials)
    cases[own] = replace(cases[own], trials=())
    return replace(record, cases=tuple(cases))


def _without_digests(record: Record) -> Record:
    assert record.run.shard is not None
    return replace(record, run=replace(record.run, shard=replace(record.run.shard, depends={})))


BAD: dict[str, tuple[Callable[[Project], Any], str]] = {
    "missing": (lambda project: shutil.rmtree(project.folder / "shards" / "2"), "shard 2/3 is missing"),
    "doubled": (
        lambda project: shutil.copytree(project.folder / "shards" / "2", project.folder / "shards" / "4"),
        "shards/4/results.json: is shard 2/3, as is shards/2/results.json; give only one of them",
    ),
    "another number": (_again(shard="2/4"), "shards/2/results.json: is shard 2/4, but shards/1/results.json is 1/3"),
    "a whole run": (
        lambda project: project.run("run", "-o", "shards/4"),
        "shards/4/results.json: is not a shard but a whole run; leave it out",
    ),
    "another suite": (
        _again(edit=_edit("agent.yaml", '"Answer."', '"Answer well."')),
        "shards/2/results.json: its suite is not that of shards/1/results.json",
    ),
    "another version": (
        _rewrite(lambda record: replace(record, provenance=replace(record.provenance, tool_version="9.9"))),
        "its version of holodeck-action is not that of shards/1/results.json: 9.9, not ",
    ),
    "another commit": (
        _rewrite(lambda record: replace(record, provenance=replace(record.provenance, commit="f" * 40))),
        f"its commit is not that of shards/1/results.json: {'f' * 40}, not none",
    ),
    "another target": (_again("--target", "recorded:./answers.jsonl"), "its target is not that of"),
    "other cases": (
        _again("--limit", "20"),
        "its filters of cases are not those of shards/1/results.json: limit is 20, not none;",
    ),
    "other gates": (
        _again("--max-flaky", "3"),
        "its gates are not those of shards/1/results.json: max_flaky is 3, not none;",
    ),
    "another comparison": (_again("--baseline", "file:base"), "its settings of the comparison are not those of"),
    "another transcript": (
        _again(edit=_edit("answers.jsonl", '"wrong"', '"right"')),
        "shards/2/results.json: the transcript answers.jsonl differed from when shards/1/results.json was run; run all",
    ),
    "another case": (
        _rewrite(lambda record: replace(record, cases=(replace(record.cases[0], weight=3.0), *record.cases[1:]))),
        "the case case 0 is not that of shards/1/results.json: weight is 3, not 1; run all",
    ),
    "no digests": (
        _rewrite(_without_digests),
        "shards/2/results.json: does not record which code and files it was run with, but other shards do; run all",
    ),
    "another cut": (_rewrite(_other_split), "the cases were distributed differently"),
    "no results": (
        lambda project: (project.folder / "shards" / "2" / "results.json").write_text("{}"),
        "shards/2/results.json: not a results file",
    ),
    "cut short": (
        lambda project: _edit("shards/2/results.json", '"wrong"', '"right"')(project),
        "shards/2/results.json: is incomplete: its content does not match its digest",
    ),
}


@pytest.fixture(scope="module")
def all_shards(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A whole run and its three shards; copies of it are spoilt."""
    project = write_mixed(Project(tmp_path_factory.mktemp("shards")))
    assert project.run("run", "-o", "base").code == 3
    run_shards(project, 3)
    return project


@pytest.mark.parametrize("kind", BAD)
def test_what_is_not_all_shards_of_one_run_is_refused_by_name(all_shards: Project, tmp_path: Path, kind: str) -> None:
    project = all_shards.copy_to(tmp_path)
    make, said = BAD[kind]
    make(project)
    finished = project.run("merge", "shards", "-o", "merged")
    assert finished.code == 2
    assert said in finished.stderr
    assert not (project.folder / "merged").exists()


def test_shards_that_all_lack_digests_are_merged(all_shards: Project, tmp_path: Path) -> None:
    """No shard then differs from another one in what it records."""
    project = all_shards.copy_to(tmp_path)
    for number in (1, 2, 3):
        _rewrite(_without_digests, number)(project)
    finished = project.run("merge", "shards", "-o", "merged")
    assert "does not record" not in finished.stderr
    assert verdict(project, "merged")["counts"] == verdict(project, "base")["counts"]


def test_folders_that_cannot_be_merged_are_refused(mixed: Project) -> None:
    (mixed.folder / "empty").mkdir()
    assert "empty: holds no results.json" in mixed.run("merge", "empty", "-o", "merged").stderr
    run_shards(mixed, 1)
    inside = mixed.run("merge", "shards", "-o", "shards")
    assert inside.code == 2
    assert "is in the output folder, where the merged results would replace it" in inside.stderr


SYSTEMS = {
    "GitLab": {"CI_NODE_INDEX": "2", "CI_NODE_TOTAL": "3"},
    "CircleCI": {"CIRCLE_NODE_INDEX": "1", "CIRCLE_NODE_TOTAL": "3"},
    "Buildkite": {"BUILDKITE_PARALLEL_JOB": "1", "BUILDKITE_PARALLEL_JOB_COUNT": "3"},
    "Azure Pipelines": {"SYSTEM_JOBPOSITIONINPHASE": "2", "SYSTEM_TOTALJOBSINPHASE": "3"},
    "AWS Batch": {"AWS_BATCH_JOB_ARRAY_INDEX": "1", "AWS_BATCH_JOB_ARRAY_SIZE": "3"},
    "Slurm": {"SLURM_ARRAY_TASK_ID": "5", "SLURM_ARRAY_TASK_MIN": "4", "SLURM_ARRAY_TASK_COUNT": "3"},
    "Kubernetes": {"JOB_COMPLETION_INDEX": "1"},
}


@pytest.mark.parametrize("system", SYSTEMS)
def test_auto_takes_the_part_from_the_variables_of_parallel_jobs(mixed: Project, system: str) -> None:
    asked = "auto/3" if system == "Kubernetes" else "auto"
    assert mixed.run("run", "--shard", asked, "-o", "part", **SYSTEMS[system]).code == 0
    shard = read_record(mixed.folder / "part" / "results.json").run.shard
    assert shard is not None
    assert (shard.number, shard.count) == (2, 3)


@pytest.mark.parametrize(
    ("asked", "environ", "said"),
    [
        ("auto", {}, "--shard auto: this is not a parallel job of a known system (GitLab, CircleCI, Buildkite"),
        ("auto", SYSTEMS["Kubernetes"], "Kubernetes does not report the number of jobs; give --shard auto/N"),
        ("auto", {**SYSTEMS["GitLab"], **SYSTEMS["Slurm"]}, "the variables of several systems are set (GitLab, Slurm)"),
        (
            "auto",
            {"CI_NODE_INDEX": "x", "CI_NODE_TOTAL": "3"},
            "CI_NODE_INDEX of GitLab is 'x', which is not a whole number",
        ),
        ("auto", {"CI_NODE_INDEX": "4", "CI_NODE_TOTAL": "3"}, "GitLab reports that this is job 4 of 3"),
        ("3/2", {}, "'3/2' is not allowed (allowed: I/N with I from 1 to N, auto, or auto/N)"),
        ("0/2", {}, "'0/2' is not allowed"),
    ],
)
def test_a_part_that_cannot_be_told_is_refused(mixed: Project, asked: str, environ: dict[str, str], said: str) -> None:
    finished = mixed.run("run", "--shard", asked, "-o", "part", **environ)
    assert finished.code == 2
    assert said in " ".join(finished.stderr.split())


def test_what_needs_the_whole_run_is_refused(mixed: Project) -> None:
    finished = mixed.run("run", "--shard", "1/2", "--history", "runs")
    assert finished.code == 2
    assert "--history requires the whole run, but --shard runs only a part" in finished.stderr
    summary = {"method": "custom", "function": "own:mean", "min": 0.5}
    mixed.policy(target="recorded:answers.jsonl", gates={"summary": summary})
    mixed.write("own.py", "def mean(means):\n    return 1.0\n")
    finished = mixed.run("run", "--shard", "1/2")
    assert finished.code == 2
    assert "--shard cannot be combined with method custom" in finished.stderr
    # A suite that can be merged does not excuse the next one.
    before = Project(mixed.folder / "a")
    before.folder.mkdir()
    before.numbered(1)
    several = mixed.run("run", "a/agent.yaml", "agent.yaml", "--shard", "1/2")
    assert (several.code, several.errors) == (2, finished.errors)


def test_a_budget_is_shared_by_the_shards(mixed: Project) -> None:
    mixed.policy()
    flags = ("--dry-run", "--target", "model", "--max-tokens", "6000")
    planned = mixed.run("run", *flags, "--shard", "1/3", OPENAI_API_KEY="sk-none").stdout
    assert "8 cases" in planned or "7 cases" in planned
    assert "budget of the run: 6,000 tokens, of which this shard has 1/3" in planned


def test_notices_about_answers_are_those_of_all_shards(project: Project) -> None:
    """Answers that were cut are counted over all shards, as the run in one piece counts them."""
    project.numbered(6)
    for number in (1, 2):
        assert project.run("run", "--shard", f"{number}/2", "-o", f"shards/{number}").code == 0
        folder = project.folder / "shards" / str(number)
        record = read_record(folder / "results.json")
        cut = replace(
            record,
            cases=tuple(
                replace(
                    case,
                    trials=tuple(
                        replace(trial, turns=tuple(replace(turn, finish_reason="length") for turn in trial.turns))
                        for trial in case.trials
                    ),
                )
                for case in record.cases
            ),
        )
        write_results(folder, cut, conclude(cut).verdict)
    assert project.run("merge", "shards", "-o", "merged").code == 0
    notices = read_record(project.folder / "merged" / "results.json").notices
    assert any(notice.startswith("6 answers stop at") for notice in notices)


@pytest.mark.full
def test_shards_of_edited_code_are_not_merged(project: Project) -> None:
    """What the target's module imports counts as the module itself."""
    project.write("my_agent.py", "from words import said\n\n\ndef answer(messages):\n    return said(messages)\n")
    words = "def said(messages):\n    return messages[-1]['content']{}\n"
    project.write("words.py", words.format(""))
    project.suite([{"name": f"case {at}", "input": f"{at}", "ground_truth": f"{at}"} for at in range(4)])
    project.policy(target="python:my_agent:answer", metrics=[{"type": "standard", "metric": "equality"}])
    run_shards(project, 2)
    assert project.run("merge", "shards", "-o", "merged").code == 0
    project.write("words.py", words.format(".strip()"))
    assert project.run("run", "--shard", "2/2", "-o", "shards/2").code == 0
    finished = project.run("merge", "shards", "-o", "again")
    assert finished.code == 2
    said = "the imported module words.py differed from when shards/1/results.json was run; run all shards of one run"
    assert f"error: shards/2/results.json: {said}" in finished.stderr
