"""Runs that are compared with their merge base, whose suite runs beside them: real repositories and clones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from holodeck_action.record.result_files import read_record
from tests.commands.project import Project
from tests.commands.test_against import NEW, OLD, agent, answered, asks_judge, records, scores, write
from tests.github.events import event_environ
from tests.github.repositories import AGENT, baseline, by_code, commit, missing, repository, responses, run
from tests.github.test_merge_base import git
from tests.llm.models import KEY, FakeModels
from tests.targets.service import Service
from tests.workers.installing import bare_python, wheel, with_uv

pytestmark = [pytest.mark.needs("deepeval"), pytest.mark.models(answer=answered)]


@pytest.fixture
def shop(project: Project) -> Project:
    return repository(project)


@pytest.mark.full
def test_what_the_change_does_not_touch_costs_nothing(shop: Project, models: FakeModels) -> None:
    kept = ("--cache", str(shop.folder.parent / "kept"))
    write(shop, models, "", OLD, count=30)
    fork = commit(shop)
    shop.run("run", *kept, OPENAI_API_KEY=KEY)
    before = len(models.requests)
    assert before == 60
    write(shop, models, "", NEW, count=30)
    head = commit(shop, "topic")
    finished = run(shop, *kept, "--on-case-regression", "fail")
    asked = Counter("judge" if asks_judge(request) else agent(request) for request in models.requests[before:])
    assert asked == {NEW: 30, "judge": 30}, finished.stderr
    mine, base = records(shop)
    assert (scores(mine), scores(base)) == ([0.9] * 30, [0.2] * 30)
    assert (mine.provenance.commit, base.provenance.commit) == (head, fork)
    assert mine.provenance.folder == base.provenance.folder == ""
    found = baseline(shop).base
    assert found is not None
    assert (found.source, found.commit, found.wanted, found.distance) == ("merge-base", fork, fork, 0)
    assert base.run.model_calls is not None
    assert (base.run.model_calls.requests, base.run.model_calls.reused) == (0, 30)
    assert finished.code == 0
    comparison = shop.verdict()["comparison"]
    assert (comparison["paired"], len(comparison["fixed"])) == (30, 30)
    # Nor does anything the second time.
    before = len(models.requests)
    run(shop, *kept)
    assert len(models.requests) == before


def test_the_judges_cases_and_metrics_of_the_head_count_for_both(shop: Project, models: FakeModels) -> None:
    write(shop, models, "", OLD, count=2)
    shop.policy(judges={"models": [{"provider": "openai", "name": "old-judge", "endpoint": models.openai_url}]})
    commit(shop)
    write(shop, models, "", NEW, count=2)
    shop.policy(gates={"min_pass_rate": 0.5})
    commit(shop, "topic")
    finished = run(shop)
    assert {request.model for request in models.requests} == {"gpt-4o", "gpt-4o-mini"}, finished.stderr
    assert [scores(record) for record in records(shop)] == [[0.9, 0.9], [0.2, 0.2]]


def test_the_base_is_where_the_branch_left_the_default_branch(shop: Project) -> None:
    by_code(shop, "wrong")
    fork = commit(shop)
    by_code(shop, "right")
    commit(shop, "topic")
    git(shop.folder, "checkout", "-q", "main")
    by_code(shop, "later on main")
    commit(shop)
    git(shop.folder, "checkout", "-q", "topic")
    before = git(shop.folder, "status", "--porcelain"), git(shop.folder, "worktree", "list")
    finished = run(shop)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert responses(shop) == ({"right"}, {"wrong"})
    assert records(shop)[1].provenance.commit == fork
    assert (git(shop.folder, "status", "--porcelain"), git(shop.folder, "worktree", "list")) == before


def test_a_suite_below_the_root_sees_its_own_files_alone(shop: Project) -> None:
    inner = Project(shop.folder / "agents" / "a")
    inner.folder.mkdir(parents=True)
    by_code(inner, "wrong")
    shop.write("shared.py", "WORDS = 'wrong'\n")
    inner.write("agent.py", "from shared import WORDS\n\n\ndef answer(messages):\n    return WORDS\n")
    commit(shop)
    shop.write("shared.py", "WORDS = 'right'\n")
    commit(shop, "topic")
    finished = run(shop, "agents/a")
    assert finished.code == 0, finished.stdout + finished.stderr
    assert responses(shop) == ({"right"}, {"wrong"})
    assert [record.provenance.folder for record in records(shop)] == ["agents/a"] * 2


def test_a_suite_that_was_renamed_has_its_former_folder_as_base(shop: Project) -> None:
    old, new = Project(shop.folder / "agents" / "a"), Project(shop.folder / "b")
    old.folder.mkdir(parents=True)
    by_code(old, "wrong")
    fork = commit(shop)
    old.folder.rename(new.folder)
    new.write("agent.py", AGENT.format(words="right"))
    commit(shop, "topic")
    finished = run(shop, "b")
    assert finished.code == 0, finished.stdout + finished.stderr
    assert responses(shop) == ({"right"}, {"wrong"})
    base = baseline(shop).base
    assert base is not None
    assert base.notices == (f"the suite was at agents/a/agent.yaml in commit {fork[:12]}: it was renamed",)


def test_a_stopped_run_is_continued_on_both_sides(shop: Project, models: FakeModels) -> None:
    write(shop, models, "", OLD)
    commit(shop)
    write(shop, models, "", NEW)
    commit(shop, "topic")
    stopped = run(shop, "--concurrency", "2", "--max-tokens", "2500")
    assert stopped.code == 4, stopped.stderr
    done = [sum(bool(case.trials) for case in record.cases) for record in records(shop)]
    assert all(0 < count < 12 for count in done)
    asked = Counter(map(agent, models.requests))
    assert run(shop, "--resume").code == 0
    head, base = records(shop)
    assert (scores(head), scores(base)) == ([0.9] * 12, [0.2] * 12)
    assert (head.run.resumed_trials, base.run.resumed_trials) == tuple(done)
    again = Counter(map(agent, models.requests)) - asked
    assert (again[NEW], again[OLD]) == (12 - done[0], 12 - done[1])


def test_the_plan_counts_the_base(shop: Project, models: FakeModels) -> None:
    write(shop, models, "", OLD)
    fork = commit(shop)
    write(shop, models, "", NEW)
    commit(shop, "topic")
    planned = run(shop, "--dry-run")
    assert f"plan: agent.yaml (base, commit {fork[:12]}): 12 cases" in planned.stdout
    assert models.requests == []


@pytest.mark.full
@pytest.mark.parametrize(
    ("before", "says"),
    [
        ("", "the suite did not exist at commit {fork}: agent.yaml is not in it"),
        ("nonsense: 1", "the suite of commit {fork} cannot be run: agent.yaml:1:1: "),
        ("target", "the suite of commit {fork} cannot be run: target: agent:answer: "),
    ],
)
def test_a_base_that_cannot_be_run_is_missing(shop: Project, before: str, says: str) -> None:
    if before == "target":
        by_code(shop, "right")
        shop.write("agent.py", "def other(): pass\n")
    elif before:
        shop.write("agent.yaml", before)
    fork = commit(shop)
    by_code(shop, "right")
    commit(shop, "topic")
    finished = run(shop)
    assert missing(shop, finished).startswith(says.format(fork=fork[:12]))
    assert run(shop, "--on-missing-baseline", "fail").code == 3
    assert says.format(fork=fork[:12]) in run(shop, "--dry-run").stderr


def test_a_key_that_only_the_base_needs_is_missing_there(shop: Project, models: FakeModels) -> None:
    write(shop, models, "", OLD, count=1, model={"provider": "anthropic", "name": "claude-haiku-4-5"})
    commit(shop)
    write(shop, models, "", NEW, count=1)
    commit(shop, "topic")
    finished = run(shop)
    assert missing(shop, finished).startswith("the base cannot be run: agent.yaml: target: Anthropic needs a key")
    assert "ANTHROPIC_API_KEY" in baseline(shop).missing


def test_outside_of_a_repository_there_is_no_base(project: Project) -> None:
    by_code(project, "right")
    finished = run(project)
    assert "the evaluated commit is unknown" in missing(project, finished)


@pytest.mark.full
def test_a_commit_is_compared_with_itself_only_where_it_has_been_changed(shop: Project, tmp_path: Path) -> None:
    by_code(shop, "wrong")
    main = commit(shop)
    by_code(shop, "right")
    assert run(shop).code == 0
    assert responses(shop) == ({"right"}, {"wrong"})
    found = baseline(shop).base
    assert found is not None
    assert found.notices == (f"commit {main[:12]} is its own merge base, so only uncommitted changes differ",)
    # A scheduled run has nothing of its own.
    environ = event_environ("schedule", tmp_path, GITHUB_REF="refs/heads/main", GITHUB_SHA=main)
    assert missing(shop, run(shop, **environ)) == f"commit {main[:12]} would be compared with itself"


def test_one_service_for_both_is_mentioned(shop: Project) -> None:
    by_code(shop, "right", count=1)
    commit(shop)
    service = Service()
    service.respond = lambda handler, _: handler.answer({"response": "right"})
    try:
        assert run(shop, "--target", f"{service.url}?key=hidden").code == 0
    finally:
        service.close()
    found = baseline(shop).base
    assert found is not None
    assert f"the same service, http:{service.url}" in found.notices[0]
    assert len(service.received) == 2


def test_answers_that_are_graded_again_have_nothing_beside_them(shop: Project) -> None:
    by_code(shop, "right")
    commit(shop)
    shop.run("run", "-o", "first")
    shop.policy(target="python:agent:answer", baseline={"source": "merge-base"})
    finished = shop.run("rejudge", "first/results.json", "-o", "out")
    assert "stored answers that are graded again can only be compared with a file" in missing(shop, finished)


# -- more than one suite, place or attempt


def test_suites_of_one_repository_have_their_own_bases(shop: Project) -> None:
    one, two = (Project(shop.folder / name) for name in ("one", "two"))
    for suite_folder in (one, two):
        suite_folder.folder.mkdir()
    by_code(one, "wrong")
    commit(shop)
    by_code(one, "right")
    by_code(two, "right")
    commit(shop, "topic")
    finished = run(shop, "one", "two")
    assert finished.code == 0, finished.stdout + finished.stderr
    found = [read_record(shop.out / name / "results.json").baseline for name in ("one", "two")]
    assert [each is not None and each.base is not None for each in found] == [True, False]
    assert (shop.out / "one" / "base" / "results.json").is_file()
    assert not (shop.out / "two" / "base").exists()


def test_a_worktree_has_the_objects_of_its_repository(shop: Project) -> None:
    by_code(shop, "wrong")
    commit(shop)
    other = Project(shop.folder.parent / "other")
    git(shop.folder, "worktree", "add", "-q", "-b", "topic", str(other.folder))
    by_code(other, "right")
    commit(other)
    finished = run(other)
    assert responses(other) == ({"right"}, {"wrong"}), finished.stderr


SLOW = """
import os
import time
from words import WORDS

def answer(messages):
    with open(os.environ["ASKED"], "a") as file:
        file.write(WORDS + messages[-1]["content"] + "\\n")
    number = int(messages[-1]["content"].split()[-1])
    time.sleep(600 if number >= int(os.environ.get("HANG", "1000")) else 0)
    return WORDS
"""


@pytest.mark.full
@pytest.mark.races
def test_a_killed_run_is_continued_with_the_base_in_another_place(shop: Project) -> None:
    by_code(shop, "", count=9)
    shop.write("agent.py", SLOW)
    shop.write("words.py", "WORDS = 'wrong'\n")
    commit(shop)
    shop.write("words.py", "WORDS = 'right'\n")
    commit(shop, "topic")
    asked = shop.folder.parent / "asked"
    asked.touch()
    environ = {"ASKED": str(asked)}
    journals = [shop.out / "journal.jsonl", shop.out / "base" / "journal.jsonl"]

    def trials() -> list[int]:
        return [file.read_bytes().count(b'{"case"') if file.exists() else 0 for file in journals]

    with shop.start(
        "run", "-o", "out", "--baseline", "merge-base", "--concurrency", "2", HANG="4", **environ
    ) as process:
        shop.wait_until(lambda: trials() == [4, 4])
        process.kill()
        process.communicate()
    before = len(asked.read_text().splitlines())
    finished = run(shop, "--resume", **environ)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert [record.run.resumed_trials for record in records(shop)] == [4, 4]
    assert len(asked.read_text().splitlines()) - before == 2 * (9 - 4)


@pytest.mark.full
def test_a_base_that_moves_though_its_code_did_not_is_a_drift(shop: Project) -> None:
    """What answers stands outside of the repository, as a model does."""
    model = shop.folder.parent / "model"
    cases = [{"name": f"case {at}", "input": f"question {at}", "ground_truth": "right"} for at in range(20)]
    shop.write("agent.py", f"def answer(messages):\n    return open({str(model)!r}).read()\n")
    shop.policy(target="python:agent:answer", gates={"min_pass_rate": 0.0, "max_errors": 0}, limits={"concurrency": 1})
    shop.suite(cases)
    fork = commit(shop)
    model.write_text("right")
    kept = ("--history", str(shop.folder.parent / "past"))
    assert shop.run("run", *kept).code == 0
    shop.suite(cases, instructions={"inline": "Answer well."})
    commit(shop, "topic")
    moved = f"equality moved at commit {fork[:7]} with the same suite: 1.000 [0.839, 1.000] on "
    assert moved not in run(shop, *kept).stdout
    model.write_text("wrong")
    finished = run(shop, *kept)
    assert f"drift: {moved}" in finished.stdout, finished.stdout
    assert "a model changed, not the code" in finished.stdout
    # Other metrics measure something else.
    shop.suite(cases, [{"type": "standard", "metric": "equality", "threshold": 0.9}])
    commit(shop)
    assert moved not in run(shop, *kept).stdout


@pytest.mark.full
@pytest.mark.parametrize("way", ["requirements", "project in place", "interpreter"])
def test_each_side_has_its_own_packages(shop: Project, way: str) -> None:
    """What is not under version control, such as an interpreter, is that of the checkout for both."""
    by_code(shop, "")
    shop.write("agent.py", "from goods import WORDS\n\ndef answer(messages):\n    return WORDS\n")
    shop.write(".gitignore", "out\n__pycache__\n.venv\nwheels\n*.egg-info\n")
    wheels = shop.folder.parent / "wheels"
    for version, words in (("1.0", "wrong"), ("2.0", "right")):
        wheel(wheels, "goods", version, f"WORDS = {words!r}\n")
    environment = {"requirements": "requirements.txt"}
    if way == "interpreter":
        environment = {"interpreter": ".venv/bin/python"}
        python = bare_python(shop.folder / ".venv")
        (packages,) = python.parents[1].glob("lib/python3*/site-packages")
        (packages / "goods.py").write_text("WORDS = 'right'\n")
    shop.policy(target="python:agent:answer", environment=environment, limits={"concurrency": 1})

    def need(version: str, words: str) -> None:
        if way == "requirements":
            shop.write("requirements.txt", f"--no-index\n--find-links {wheels}\ngoods=={version}\n")
        elif way == "project in place":
            shop.write("requirements.txt", "--no-index\n-e ./lib\n")
            shop.write("lib/pyproject.toml", IN_PLACE.format(version=version))
            shop.write("lib/backend.py", BACKEND)
            shop.write("lib/src/goods.py", f"WORDS = {words!r}\n")

    need("1.0", "wrong")
    commit(shop)
    need("2.0", "right")
    shop.write("changed.txt", "")
    commit(shop, "topic")
    environ = with_uv(shop.folder.parent)
    finished = run(shop, **environ)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert responses(shop) == ({"right"}, {"right" if way == "interpreter" else "wrong"}), finished.stderr
    assert (run(shop, **environ).code, responses(shop)[0]) == (0, {"right"})
    kept = [*shop.folder.parent.rglob("holodeck-action/environments/*/holodeck-action.json")]
    # Of what is used in place nothing is kept but what the checkout needs.
    assert len(kept) == {"requirements": 2, "project in place": 1, "interpreter": 0}[way]


IN_PLACE = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "goods"
version = "1"
description = "{version}"
"""
BACKEND = """
import os, zipfile

def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "goods-1-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
        about = "goods-1.dist-info"
        archive.writestr("goods.pth", os.path.join(os.getcwd(), "src"))
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\\nName: goods\\nVersion: 1\\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr(f"{about}/RECORD", "")
    return name
"""
