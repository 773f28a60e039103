"""Two agents run side by side: the suite that is given, and what it is compared with."""

from __future__ import annotations

import errno
import io
import json
import os
from collections import Counter
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.cli import main
from holodeck_action.record.disk import Disk
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import read_record, read_results
from tests.action.step import Step
from tests.commands.deadlines import ever_longer
from tests.commands.project import Finished, Project
from tests.extensions.tracing.collector import http_collector
from tests.llm.models import KEY, Answer, FakeModels, Request
from tests.workers.installing import NO_INDEX, wheel, with_uv

OLD, NEW = "Answer briefly.", "Answer at length."


def answered(request: Request) -> Answer:
    if asks_judge(request):
        return Answer(json.dumps({"score": 2 if "briefly" in request.text else 9, "reason": "so it is"}))
    return Answer(f"{'briefly' if request.system == OLD else 'at length'}: {request.text}")


pytestmark = [pytest.mark.needs("deepeval"), pytest.mark.models(answer=answered, latency=0.02)]


def asks_judge(request: Request) -> bool:
    return request.model == "gpt-4o-mini"


def agent(request: Request) -> str:
    """Which of the two instructions a question to the agent had; empty for one to the judge."""
    return "" if asks_judge(request) else request.system


def write(project: Project, models: FakeModels, folder: str, instructions: str, count: int = 12, **top: Any) -> None:
    """Write a suite that a judge grades, into a folder of the project."""
    model = {"provider": "openai", "endpoint": models.openai_url, "max_tokens": 200}
    judged = {"type": "geval", "name": "Good", "criteria": "Is it good?", "evaluation_steps": ["Look at it."]}
    project.suite(
        [{"name": f"case {at}", "input": f"question {at}"} for at in range(count)],
        [judged],
        **{
            "model": {**model, "name": "gpt-4o"},
            "instructions": {"inline": instructions},
            "evaluations": {"model": {**model, "name": "gpt-4o-mini"}, "metrics": [judged]},
            **top,
        },
    )
    if folder:
        (project.folder / folder).mkdir(exist_ok=True)
        (project.folder / "agent.yaml").rename(project.folder / folder / "agent.yaml")


def run(project: Project, *arguments: str, **environ: str) -> Finished:
    return project.run("run", "-o", "out", *arguments, OPENAI_API_KEY=KEY, **environ)


def records(project: Project) -> tuple[Record, Record]:
    """The record of the suite, and that of its base."""
    return read_record(project.out / "results.json"), read_record(project.out / "base" / "results.json")


def scores(record: Record) -> list[Any]:
    return [evaluation.score for evaluation in record.evaluations]


@pytest.mark.proves("run: --against")
def test_two_suites_take_turns_and_share_their_judge(project: Project, models: FakeModels) -> None:
    write(project, models, "old", OLD)
    write(project, models, "", NEW)
    finished = run(project, "--against", "old", "--concurrency", "2")
    head, base = records(project)
    assert (scores(head), scores(base)) == ([0.9] * 12, [0.2] * 12), finished.stderr
    asked = [agent(request) for request in models.requests if agent(request)]
    assert Counter(asked) == {NEW: 12, OLD: 12}
    # Two are under way at a time: which of them comes first is open.
    assert max(map(abs, accumulate(1 if each == NEW else -1 for each in asked))) <= 2
    assert head.baseline is not None
    assert head.baseline.base is not None
    assert head.baseline.base.source == "against:old"
    assert head.run.base_digest == read_results(project.out / "base" / "results.json").digest
    # Each counts its own.
    assert head.run.model_calls is not None
    assert base.run.model_calls is not None
    assert head.run.model_calls.calls == base.run.model_calls.calls == 24
    assert not list(project.out.rglob("journal*"))


@pytest.mark.proves("run: --against-target --against-model --against-prompt")
@pytest.mark.parametrize(
    ("flag", "value", "source", "answer"),
    [
        ("--against-target", "recorded:said.jsonl", "against-target:recorded:said.jsonl", "said before"),
        ("--against-model", "gpt-4.1", "against-model:gpt-4.1", "gpt-4.1: question 0"),
        ("--against-prompt", "old.md", "against-prompt:old.md", "briefly: question 0"),
    ],
)
def test_a_suite_is_compared_with_itself_changed(
    project: Project, models: FakeModels, flag: str, value: str, source: str, answer: str
) -> None:
    models.answer(lambda asked: Answer(f"gpt-4.1: {asked.text}") if asked.model == "gpt-4.1" else answered(asked))
    write(project, models, "", NEW, count=1)
    project.answers([{"case": "case 0", "response": "said before"}], "said.jsonl")
    project.write("old.md", OLD)
    finished = run(project, flag, value)
    head, base = records(project)
    found = [next(record.turns).response for record in (head, base)]
    assert found == ["at length: question 0", answer], finished.stderr
    assert head.baseline is not None
    assert head.baseline.base is not None
    assert head.baseline.base.source == source
    assert f"agent.yaml (base, {source})" in finished.stderr


def test_only_the_same_cases_are_asked_twice(project: Project, models: FakeModels) -> None:
    cases = [{"name": name, "input": f"{name}?"} for name in ("kept", "changed", "gone")]
    write(project, models, "old", OLD, test_cases=cases)
    cases = [
        {"name": "kept", "input": "kept?"},
        {"name": "changed", "input": "other?"},
        {"name": "new", "input": "new?"},
    ]
    write(project, models, "", NEW, test_cases=cases)
    finished = run(project, "--against", "old")
    head, base = records(project)
    assert {case.id: len(case.trials) for case in head.cases} == {"kept": 1, "changed": 1, "new": 1}, finished.stderr
    assert {case.id: len(case.trials) for case in base.cases} == {"kept": 1, "changed": 0, "gone": 0}
    assert [request.text for request in models.requests if agent(request) == OLD] == ["kept?"]
    unpaired = {case["id"]: case["why"] for case in project.verdict()["comparison"]["unpaired"]}
    assert unpaired == {"changed": "changed", "gone": "removed", "new": "added"}
    # What a filter leaves out is not gone.
    run(project, "--against", "old", "--case", "changed", "--case", "kept")
    assert {case.id: len(case.trials) for case in records(project)[1].cases} == {"kept": 1, "changed": 0}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--against", "old", "--against-model", "x"), "one other: give one of --against and --against-model"),
        (("--against", "old", "--baseline", "artifact"), "one other: give one of --against and --baseline"),
        (("--bless", "base.json"), "--bless keeps the results of the better of two agents; give --against, too"),
        (
            ("--against-model", "x", "--bless", "no/base.json"),
            "--bless no/base.json: the folder does not exist; choose a file in an existing folder",
        ),
        (
            ("agent.yaml", "old", "--against-model", "x", "--bless", "b"),
            "2 suites are to run, but only one suite can be blessed; give one suite",
        ),
        (("--against", "nowhere"), "nowhere: no such suite"),
        (
            ("--against", "none"),
            "none/agent.yaml (base): this suite has no case with the same name and content as a case of agent.yaml",
        ),
        (("--against", "wrong"), "wrong/agent.yaml:1:1: model: is missing"),
        (("--against-prompt", "nowhere.md"), "--against-prompt nowhere.md: cannot be read: No such file or directory"),
        (("--against-target", "nothing"), "--against-target: must be recorded:PATH"),
        (("--against-target", "python:nothing:at_all"), "nothing"),
        (
            ("--against-model", "x", "--target", "recorded:said.jsonl"),
            "--against-model applies to the suite's own model",
        ),
        (("agent.yaml", "old", "--against", "none"), "2 suites are run, but only one can be compared"),
        (("--against", "*"), "suites match; --against needs a single suite; give one path"),
    ],
)
def test_what_cannot_be_compared_with_is_refused(
    project: Project, models: FakeModels, arguments: tuple[str, ...], says: str
) -> None:
    write(project, models, "none", OLD, test_cases=[{"name": "another", "input": "another"}])
    write(project, models, "old", OLD)
    project.write("wrong/agent.yaml", "{}")
    project.answers([{"case": "case 0", "response": "said before"}], "said.jsonl")
    write(project, models, "", NEW)
    finished = run(project, *arguments)
    assert finished.code == 2, finished.stdout
    assert says in finished.stderr
    assert models.requests == []


def test_a_budget_stops_both_and_both_are_continued(project: Project, models: FakeModels) -> None:
    write(project, models, "old", OLD)
    write(project, models, "", NEW)
    stopped = run(project, "--against", "old", "--concurrency", "2", "--max-tokens", "2500")
    assert stopped.code == 4, stopped.stderr
    head, base = records(project)
    done = [sum(bool(case.trials) for case in record.cases) for record in (head, base)]
    assert all(0 < count < 12 for count in done)
    assert head.stopped == base.stopped
    assert sorted(path.parent.name for path in project.out.rglob("journal.jsonl")) == ["base", "out"]
    asked = Counter(agent(request) for request in models.requests)
    finished = run(project, "--against", "old", "--resume")
    head, base = records(project)
    assert (scores(head), scores(base)) == ([0.9] * 12, [0.2] * 12), finished.stderr
    assert (head.run.resumed_trials, base.run.resumed_trials) == tuple(done)
    # Those that were under way are asked again, and no other one.
    again = Counter(agent(request) for request in models.requests) - asked
    assert (again[NEW], again[OLD]) == (12 - done[0], 12 - done[1])
    assert not list(project.out.rglob("journal*"))


def test_a_journal_of_another_base_is_not_continued(project: Project, models: FakeModels) -> None:
    write(project, models, "old", OLD)
    write(project, models, "", NEW)
    assert run(project, "--against", "old", "--max-tokens", "1500").code == 4
    finished = run(project, "--against-model", "gpt-4.1", "--resume")
    assert finished.code == 2
    assert "out/base/journal.jsonl: the interrupted run differs from this one" in finished.stderr


def test_the_plan_counts_both(project: Project, models: FakeModels) -> None:
    write(project, models, "old", OLD)
    write(project, models, "", NEW)
    planned = run(project, "--against", "old", "--dry-run", "--max-tokens", "1000")
    printed = planned.stdout.splitlines()
    lines = [line for line in printed if "further trials" not in line and ": conversations: " not in line]
    assert len(printed) == len(lines) + 4
    assert [line.partition(": at least")[0] for line in lines[:2]] == [
        "plan: agent.yaml: 12 cases, 12 trials",
        "plan: old/agent.yaml (base): 12 cases, 12 trials",
    ]
    assert all("12 evaluations by judges" in line for line in lines[:2])
    assert lines[2].endswith("less than the minimum of the plan: the run will stop early")
    assert models.requests == []
    assert not project.out.exists()
    # The suite's budget is for both: it is enough for either.
    project.policy(budget={"max_tokens": 5000})
    planned = run(project, "--against", "old", "--dry-run")
    assert [line for line in planned.stdout.splitlines() if line.startswith("budget")] == [
        "budget of agent.yaml: 5,000 tokens, less than the minimum of the plan: the run will stop early"
    ]


def test_a_deadline_stops_both(project: Project, models: FakeModels) -> None:
    models.latency = 0.3
    write(project, models, "old", OLD, count=30)
    write(project, models, "", NEW, count=30)
    finished = run(project, "--against", "old", "--concurrency", "2", "--run-timeout", "3")
    assert finished.code == 4, finished.stderr
    head, base = records(project)
    assert head.stopped == base.stopped == "the run deadline of 3 s was reached"
    assert abs(sum(bool(case.trials) for case in head.cases) - sum(bool(case.trials) for case in base.cases)) <= 2


def test_a_run_whose_base_was_not_done_is_stopped_though_its_own_cases_are(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.numbered(3)
    project.write("slow.py", "import time\n\n\ndef answer(messages):\n    time.sleep(600)\n")

    def attempt(seconds: float) -> tuple[Finished, str]:
        limit = ("--run-timeout", f"{seconds}")
        finished = project.run("run", "-o", "out", "--against-target", "python:slow:answer", *limit)
        return finished, f"the run deadline of {seconds} s was reached; the base was not fully evaluated"

    finished, reason = ever_longer(attempt, lambda _: all(case.trials for case in records(project)[0].cases))
    assert finished.code == 4, finished.stderr
    head, base = records(project)
    assert all(case.trials for case in head.cases)
    assert not any(case.trials for case in base.cases)
    assert head.stopped == reason


def test_a_recording_holds_the_calls_of_both(project: Project, models: FakeModels) -> None:
    write(project, models, "old", OLD, count=3)
    write(project, models, "", NEW, count=3)
    first = run(project, "--against", "old", "--record", "tape")
    before, asked = [scores(record) for record in records(project)], len(models.requests)
    second = project.run("run", "-o", "out", "--against", "old", "--replay", "tape")
    assert [scores(record) for record in records(project)] == before == [[0.9] * 3, [0.2] * 3], second.stderr
    assert (first.code, len(models.requests)) == (second.code, asked)


def test_neither_side_shows_the_secrets_of_the_other(project: Project, models: FakeModels) -> None:
    planted = ("planted-by-the-base-11", "planted-by-the-head-22")
    models.answer(lambda asked: answered(asked) if asks_judge(asked) else Answer(" and ".join(planted)))
    write(project, models, "old", OLD, count=1)
    project.write("old/holodeck-action.yaml", json.dumps({"secrets": ["${BASES}"]}))
    write(project, models, "", NEW, count=1)
    project.policy(secrets=["${HEADS}"])
    finished = run(project, "--against", "old", "--record", "tape", BASES=planted[0], HEADS=planted[1])
    assert [next(record.turns).response for record in records(project)] == ["*** and ***"] * 2, finished.stderr
    files = [path for name in ("out", "tape") for path in (project.folder / name).rglob("*.*")]
    shown = finished.stdout + finished.stderr + "".join(path.read_text() for path in files)
    assert not [secret for secret in planted if secret in shown]


def test_a_step_takes_the_inputs(project: Project, models: FakeModels) -> None:
    write(project, models, "old", OLD)
    write(project, models, "", NEW)
    ended = Step(project).run({"against": "old", "bless": "base.json"}, OPENAI_API_KEY=KEY)
    assert ended.code == 0, ended.text
    assert "Compared with old" in ended.text
    assert "**12 cases got better, none worse** compared with `old`" in ended.summary
    assert read_record(project.folder / "base.json").baseline is not None


def test_the_flag_takes_the_place_of_the_policy_files_source(project: Project, models: FakeModels) -> None:
    write(project, models, "", NEW, count=1)
    project.policy(baseline={"source": "artifact", "on_case_regression": "warn"}, gates={"max_errors": 0})
    finished = run(project, "--against-model", "gpt-4.1")
    assert finished.code == 0, finished.stdout + finished.stderr
    baseline = records(project)[0].baseline
    assert baseline is not None
    assert (baseline.settings.source, baseline.settings.on_case_regression) == (None, "warn")
    again = project.run("decide", "out/results.json", "--max-regressions", "0", "--on-case-regression", "fail")
    assert "no case got worse than on the base (none allowed) (max_regressions)" in again.stdout, again.stderr


def test_a_side_that_has_nothing_to_wait_for_does_not_hold_up_the_other(project: Project, models: FakeModels) -> None:
    write(project, models, "", NEW)
    project.answers([{"case": f"case {at}", "response": "at once"} for at in range(12)], "said.jsonl")
    finished = run(project, "--against-target", "recorded:said.jsonl", "--concurrency", "1")
    head, base = records(project)
    assert len(scores(head)) == len(scores(base)) == 12, finished.stderr
    assert Counter(agent(request) for request in models.requests)[NEW] == 12


@pytest.mark.full
@pytest.mark.proves("run: --bless")
@pytest.mark.parametrize(
    ("head", "base", "says", "winner"),
    [
        (NEW, OLD, "blessed: base.json has the results of this run now: pass rate 1 against 0", 0),
        (OLD, NEW, "blessed: base.json has the results of the base, other, now: pass rate 0 against 1", 1),
        (NEW, NEW, "not blessed, base.json is unchanged: pass rate 1 against 1, which is a tie", None),
    ],
)
def test_the_better_one_becomes_the_base_of_later_runs(
    project: Project, models: FakeModels, head: str, base: str, says: str, winner: int | None
) -> None:
    write(project, models, "other", base)
    write(project, models, "", head)
    project.write("base.json", "as it was")
    finished = run(project, "--against", "other", "--bless", "base.json")
    assert says in finished.stdout
    files = [project.out / "results.json", project.out / "base" / "results.json"]
    blessed = (project.folder / "base.json").read_bytes()
    assert blessed == (b"as it was" if winner is None else files[winner].read_bytes())
    if winner is not None:
        # The same suite that won is compared with itself.
        again = run(project, "other" if winner else "agent.yaml", "--baseline", "file:base.json")
        assert project.verdict()["comparison"]["paired"] == 12, again.stderr
        assert project.verdict()["comparison"]["pass_rate"]["difference"] == 0


def test_few_cases_bless_nobody(project: Project, models: FakeModels) -> None:
    write(project, models, "other", OLD, count=4)
    write(project, models, "", NEW, count=4)
    finished = run(project, "--against", "other", "--bless", "base.json")
    assert "base.json is unchanged: pass rate 1 against 0, which is inconclusive: " in finished.stdout
    assert not (project.folder / "base.json").exists()


def test_a_better_pass_rate_with_a_worse_metric_blesses_nobody(project: Project, models: FakeModels) -> None:
    def judged(request: Request) -> Answer:
        if asks_judge(request) and "Is it short?" in request.text:
            return Answer(json.dumps({"score": 9 if "briefly" in request.text else 6, "reason": "so it is"}))
        return answered(request)

    models.answer(judged)
    short = {"type": "geval", "name": "Short", "criteria": "Is it short?", "evaluation_steps": ["Is it short?"]}
    write(project, models, "other", OLD)
    write(project, models, "", NEW)
    project.policy(metrics=[short])
    project.write("other/holodeck-action.yaml", json.dumps({"metrics": [short]}))
    finished = run(project, "--against", "other", "--bless", "base.json")
    assert "pass rate 1 against 0, but the head is worse in Short" in finished.stdout, finished.stdout + finished.stderr


def test_a_run_that_was_stopped_blesses_nobody(project: Project, models: FakeModels) -> None:
    write(project, models, "other", OLD)
    write(project, models, "", NEW)
    finished = run(project, "--against", "other", "--bless", "base.json", "--max-tokens", "2500")
    assert "not blessed, base.json is unchanged: the run stopped early: the budget" in finished.stdout


class Refusing(Disk):
    """A disk on which one file cannot be put into place."""

    def rename(self, source: Path, target: Path) -> None:
        if target.name == "base.json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().rename(source, target)


def test_a_file_that_cannot_be_blessed_is_no_pass(project: Project, models: FakeModels) -> None:
    write(project, models, "other", OLD)
    write(project, models, "", NEW)
    project.write("base.json", "as it was")
    arguments = ("run", "-o", "out", "--against", "other", "--bless", "base.json")
    stdin, stdout, stderr = io.StringIO(), io.StringIO(), io.StringIO()
    environ = project.environ(OPENAI_API_KEY=KEY)
    code = main(arguments, environ, project.folder, stdin, stdout, stderr, disk=Refusing())
    assert code == 3
    assert "error: --bless base.json: cannot be written: No space left on device" in stderr.getvalue()
    assert (project.folder / "base.json").read_text() == "as it was"
    assert sorted(path.name for path in project.folder.iterdir()) == ["agent.yaml", "base.json", "other", "out"]


def test_spans_of_the_base_say_so(project: Project, models: FakeModels) -> None:
    with http_collector() as collector:
        sent = {"enabled": True, "exporters": {"otlp": {"endpoint": collector.url, "protocol": "http"}}}
        write(project, models, "old", OLD, count=1)
        write(project, models, "", NEW, count=1, observability=sent)
        run(project, "--against", "old")
        found = [span.attributes.get("holodeck_action.base") for span in collector.spans if span.name == "case case-0"]
    assert sorted(found, key=str) == [None, True]


@pytest.mark.full
def test_another_suite_has_its_own_packages(project: Project) -> None:
    suites = {"": ("2.0", "right"), "old": ("1.0", "wrong")}
    for folder, (version, words) in suites.items():
        place = Project(project.folder / folder)
        wheel(place.folder / "wheels", "goods", version, f"WORDS = {words!r}\n")
        place.suite([{"name": f"case {at}", "input": f"{at}?", "ground_truth": "right"} for at in range(2)])
        place.policy(target="python:own:answer", environment={"requirements": "requirements.txt"})
        place.write("requirements.txt", f"{NO_INDEX}goods\n")
        place.write("own.py", "import goods\n\ndef answer(messages):\n    return goods.WORDS\n")
    finished = project.run("run", "-o", "out", "--against", "old", **with_uv(project.folder))
    head, base = records(project)
    assert {turn.response for turn in head.turns} == {"right"}, finished.stderr
    assert {turn.response for turn in base.turns} == {"wrong"}
