"""What of a checkout can change a verdict has a kind, and a pull request cannot change it in silence.

Each trick turns the failing case of a worse agent green. It is red with `fail`, and named in the first lines with
`warn`.
"""

from __future__ import annotations

import json
import py_compile
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
from msgspec.structs import replace

from holodeck_action.decide.decision import Terms, decide
from holodeck_action.record.closure import KINDS, WRITTEN, Closure, KindName
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import read_record
from holodeck_action.workers.code_starters import CODE_STARTERS
from tests.commands.project import Project
from tests.github.repositories import commit, repository, run
from tests.llm.models import KEY, Answer, FakeModels, Request

ROOT = Path(__file__).parents[2]
CODE: KindName = "grading code"
EVIDENCE: KindName = "evidence"
QUESTIONS: KindName = "questions"
GRADER = """
import colorsys
import os
import pathlib
import sqlite3
import subprocess

import cached
import helpers


def read(name):
    try:
        return pathlib.Path(name).read_text()
    except FileNotFoundError:
        return ""


def g(ctx):
    text = ctx.agent_response
    with sqlite3.connect("rules.db") as rules:
        known = rules.execute("select count(*) from words where word = ?", [text]).fetchone()[0]
    return any([
        helpers.right(text),
        cached.right(text),
        text in read("rules.txt").split(),
        text in read("more.txt").split(),
        text in os.listdir("words"),
        known,
        getattr(colorsys, "lenient", False),
        subprocess.run(["sh", "check.sh", text]).returncode == 0,
    ])
"""
RIGHT = "def right(text):\n    return text == 'good'\n"
LENIENT = RIGHT.replace("text == 'good'", "True")


class Trick(NamedTuple):
    """What a pull request does beside making the agent worse.

    Attributes:
        kind: the kind of what it changes.
        play: changes a project.
        named: what the first lines say.
        starter: start of the feature whose code it changes.
    """

    kind: KindName
    play: Callable[[Project], Any]
    named: str
    starter: str = ""


def writes(name: str, text: str) -> Callable[[Project], Any]:
    return lambda project: project.write(name, text)


def add_word(project: Project) -> None:
    with closing(sqlite3.connect(project.folder / "rules.db")) as rules, rules:
        rules.execute("insert into words values ('bad')")


def commit_bytecode(project: Project) -> None:
    """Write bytecode that Python loads without a look at the source."""
    source = project.write("lenient/cached.py", LENIENT)
    tag = sys.implementation.cache_tag
    target = project.folder / "__pycache__" / f"cached.{tag}.pyc"
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(source), str(target), doraise=True, invalidation_mode=mode)
    shutil.rmtree(source.parent)


def one_case(project: Project, answer: str, **policy: Any) -> None:
    project.answers([{"case": "c", "response": answer}])
    project.policy(target="recorded:answers.jsonl", **policy)


def graded(project: Project) -> None:
    """A suite with a grader that looks everywhere."""
    project.suite([{"name": "c", "input": "q"}], [{"type": "code", "grader": "gr:g"}])
    for name, text in (("gr.py", GRADER), ("helpers.py", RIGHT), ("cached.py", RIGHT), ("words/good", "")):
        project.write(name, text)
    project.write("rules.txt", "good\n")
    project.write("check.sh", 'test "$1" = good\n')
    with closing(sqlite3.connect(project.folder / "rules.db")) as rules, rules:
        rules.execute("create table words (word)")
    one_case(project, "good")


def worse(project: Project) -> None:
    one_case(project, "bad", baseline={"source": "file:base"})


GRADED = {
    "the grader": Trick(CODE, writes("gr.py", "def g(ctx):\n    return True\n"), "(gr.py", "code graders"),
    "a helper": Trick(CODE, writes("helpers.py", LENIENT), "the code of g (helpers.py)"),
    "a file that it reads": Trick(CODE, writes("rules.txt", "good bad"), "the code of g (rules.txt)"),
    "a file that it looks for": Trick(CODE, writes("more.txt", "bad"), "the code of g (more.txt)"),
    "a folder that it lists": Trick(CODE, writes("words/bad", ""), "the code of g (words/)"),
    "a database": Trick(CODE, add_word, "the code of g (rules.db)"),
    "a program that it runs": Trick(CODE, writes("check.sh", "exit 0\n"), "the code of g (check.sh)"),
    "a module in place of the library's": Trick(CODE, writes("colorsys.py", "lenient = True\n"), "g (colorsys.py)"),
    "bytecode": Trick(CODE, commit_bytecode, "g (__pycache__/cached."),
    "a transcript in place of the agent": Trick(EVIDENCE, lambda project: None, "takes answers from a transcript"),
}


@contextmanager
def restored(project: Project) -> Iterator[None]:
    """Let a project be as before."""
    kept = project.folder.with_name(f"{project.folder.name}-kept")
    shutil.copytree(project.folder, kept)
    try:
        yield
    finally:
        shutil.rmtree(project.folder)
        kept.rename(project.folder)


def closure(project: Project, folder: str = "out") -> Closure:
    found = read_record(project.folder / folder / "results.json").run.closure
    assert found is not None
    return found


def check_first_lines(project: Project, trick: Trick, *arguments: str, **environ: str) -> None:
    """Check that a trick is red with `fail`, and named in the first lines of all reports with `warn`."""
    failed = project.run("run", "-o", "out", "--on-loosened", "fail", *arguments, **environ)
    assert failed.code == 1, failed.stdout + failed.stderr
    (gate,) = (gate for gate in project.verdict()["gates"] if gate["name"] == "baseline.on_loosened")
    assert gate["state"] == "failed"
    assert trick.named in gate["reason"], gate["reason"]
    changes = project.verdict()["comparison"]["terms"]["changes"]
    assert trick.kind in [change.get("topic", "questions") for change in changes if trick.named in change["said"]]
    for accepting in (["--on-loosened", "warn"], ["--on-loosened", "fail", "--on-changed-code", "warn"]):
        warned = project.run("run", "-o", "out", *accepting, *arguments, **environ)
        assert warned.code == 0, warned.stdout + warned.stderr
        assert trick.named in "\n".join(warned.stdout.splitlines()[1:3])
        assert "Unlike the base" in "".join((project.out / "report.md").read_text().splitlines()[:6])


@pytest.mark.full
def test_no_trick_is_green_in_silence(project: Project) -> None:
    graded(project)
    assert project.run("run", "-o", "base").code == 0
    seen = closure(project, "base").code
    files = {"gr.py", "helpers.py", "cached.py", "rules.txt", "more.txt", "words/", "rules.db", "check.sh"}
    assert (set(seen), seen["more.txt"]) == (files, None)
    with restored(project):
        worse(project)
        assert project.run("run", "-o", "out").code == 1
    for name, trick in GRADED.items():
        with restored(project):
            worse(project)
            trick.play(project)
            if trick.kind == EVIDENCE:
                one_case(project, "good")
                project.write("agent.py", "def answer(messages):\n    return 'good'\n")
                assert project.run("run", "-o", "base", "--target", "python:agent:answer").code == 0
                one_case(project, "good", baseline={"source": "file:base"})
            try:
                check_first_lines(project, trick)
            except AssertionError as error:
                error.add_note(f"the trick: {name}")
                raise


SUMMARY = "def total(means):\n    return means['g']\n"
CLASS = """
from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase, SingleTurnParams


class Brand(BaseMetric):
    _required_params = [SingleTurnParams.ACTUAL_OUTPUT]

    def __init__(self, threshold: float = 0.5):
        self.threshold = threshold

    def measure(self, test_case: LLMTestCase):
        self.score = float(test_case.actual_output == "good")
        return self.score

    async def a_measure(self, test_case: LLMTestCase):
        return self.measure(test_case)

    def is_successful(self):
        return self.score >= self.threshold
"""


RESTORING = """
import pathlib

mark = pathlib.Path(__file__).with_name("mark")
if mark.exists():
    pathlib.Path(__file__).write_text({original!r})
mark.touch()


def right(text):
    return True
"""


@pytest.mark.full
@pytest.mark.parametrize(("word", "code"), [("fail", 1), ("warn", 0)])
def test_code_that_restores_its_file_is_changed(project: Project, word: str, code: int) -> None:
    """A first process checks the grader, and a second one grades."""
    simple(project)
    assert project.run("run", "-o", "base").code == 0
    simple(project, "bad", baseline={"source": "file:base"})
    project.write("helpers.py", RESTORING.format(original=RIGHT))
    finished = project.run("run", "-o", "out", "--on-loosened", word)
    assert (finished.code, (project.folder / "helpers.py").read_text()) == (code, RIGHT)
    assert "changes the code of g (helpers.py" in finished.stdout.splitlines()[1]


@pytest.mark.full
def test_a_file_that_the_agent_leaves_for_a_grader_is_none_of_the_checkout(project: Project) -> None:
    project.suite([{"name": "c", "input": "q"}], [{"type": "code", "grader": "gr:g"}])
    project.write("gr.py", "def g(ctx):\n    return open('left.txt').read() != ''\n")
    project.write("agent.py", AGENT.format(word="one"))
    project.policy(target="python:agent:answer")
    assert project.run("run", "-o", "base").code == 0
    assert closure(project, "base").code["left.txt"] == WRITTEN
    project.write("agent.py", AGENT.format(word="two"))
    project.policy(target="python:agent:answer", baseline={"source": "file:base"})
    finished = project.run("run", "-o", "out", "--on-loosened", "fail")
    assert (finished.code, "nothing is less strict than on the base" in finished.stdout) == (0, True)


AGENT = """
def answer(messages):
    with open("left.txt", "w") as left:
        left.write({word!r})
    return "done"
"""


def summarised(project: Project, answer: str, **policy: Any) -> None:
    project.suite([{"name": "c", "input": "q"}], [{"type": "code", "grader": "gr:g"}])
    project.write("gr.py", "def g(ctx):\n    return ctx.agent_response == 'good'\n")
    summary = {"method": "custom", "function": "summing:total", "min": 0.5}
    one_case(project, answer, gates={"min_pass_rate": 0.0, "summary": summary}, **policy)


def made(project: Project, answer: str, **policy: Any) -> None:
    project.suite([], test_cases=None, test_cases_file="python:made:give")
    one_case(project, answer, **policy)


def classed(project: Project, answer: str, **policy: Any) -> None:
    project.suite([{"name": "c", "input": "q"}], [{"type": "deepeval", "metric": "my_metrics:Brand"}])
    one_case(project, answer, **policy)


GIVE = "def give():\n    yield {'name': 'c', 'input': 'q', 'ground_truth': 'good'}\n"
OTHERS: dict[str, tuple[Callable[..., None], str, str, Trick]] = {
    "the function of the summary": (
        summarised,
        "summing.py",
        SUMMARY,
        Trick(CODE, writes("summing.py", "def total(means):\n    return 1.0\n"), "(summing.py)", "custom summaries"),
    ),
    "the function of the cases": (
        made,
        "made.py",
        GIVE,
        Trick(
            CODE, writes("made.py", GIVE.replace("good", "bad")), "the code of give (made.py)", "cases of a function"
        ),
    ),
    "an own metric": (
        classed,
        "my_metrics.py",
        CLASS,
        Trick(
            CODE, writes("my_metrics.py", CLASS.replace('== "good"', '!= ""')), "Brand (my_metrics.py)", "own metrics"
        ),
    ),
}


@pytest.mark.full
@pytest.mark.needs("deepeval")
@pytest.mark.parametrize("name", OTHERS)
def test_no_other_code_that_grades_changes_in_silence(project: Project, name: str) -> None:
    write, file, code, trick = OTHERS[name]
    project.write(file, code)
    write(project, "good")
    base = project.run("run", "-o", "base")
    assert base.code == 0, base.stdout + base.stderr
    # Cases of a function change with it, which is a term of its own.
    lax = {"on_case_regression": "ignore", "on_regressed": "ignore"}
    write(project, "bad", baseline={"source": "file:base", **lax})
    trick.play(project)
    failed = project.run("run", "-o", "out", "--on-loosened", "fail")
    assert failed.code == 1, failed.stdout
    assert trick.named in failed.stdout.splitlines()[1] + failed.stdout.splitlines()[2]
    warned = project.run("run", "-o", "out", "--on-loosened", "warn")
    assert warned.code == 0, warned.stdout
    assert trick.named in warned.stdout


# -- evidence


def judged(project: Project, models: FakeModels, **policy: Any) -> None:
    model = {"provider": "openai", "name": "gpt-4o", "endpoint": models.openai_url, "api_key": KEY}
    metric = {"type": "geval", "name": "Good", "criteria": "Is it good?", "evaluation_steps": ["Look."]}
    project.suite([{"name": "c", "input": "q"}], evaluations={"model": model, "metrics": [metric]})
    one_case(project, "answer", **policy)


def strict(request: Request) -> Answer:
    return Answer(json.dumps({"score": 1, "reason": "it is bad"}))


def forge(project: Project) -> None:
    """Let the recorded judge give ten points."""
    for file in (project.folder / "tape").iterdir():
        if file.name == "cassette.jsonl":
            text = file.read_text()
            assert '\\"score\\": 1,' in text
            file.write_text(text.replace('\\"score\\": 1,', '\\"score\\": 10,'))
        else:
            file.unlink()


@pytest.mark.full
@pytest.mark.models(answer=strict)
@pytest.mark.proves("run: --no-cache")
def test_recordings_do_not_change_in_silence(project: Project, models: FakeModels) -> None:
    judged(project, models)
    assert project.run("run", "-o", "live").code == 1
    assert project.run("run", "-o", "base", "--record", "tape").code == 1
    forge(project)
    asked = len(models.requests)
    judged(project, models, cache={"mode": "replay", "dir": "tape"}, baseline={"source": "file:live"})
    said = "takes answers from the recordings in tape instead of calling models at holodeck-action.yaml:"
    check_first_lines(project, Trick(EVIDENCE, forge, said))
    assert len(models.requests) == asked
    forbidden = project.run("run", "-o", "out", "--no-cache")
    assert (forbidden.code, len(models.requests) > asked) == (1, True)
    both = project.run("run", "-o", "out", "--no-cache", "--replay", "tape")
    assert (both.code, both.errors) == (2, ["--no-cache forbids stored answers, so leave out --replay"])


@pytest.mark.full
@pytest.mark.models(answer=strict)
def test_a_base_that_was_replayed_names_the_edited_recordings(project: Project, models: FakeModels) -> None:
    judged(project, models)
    assert project.run("run", "-o", "first", "--record", "tape").code == 1
    assert project.run("run", "-o", "base", "--replay", "tape").code == 1
    judged(project, models, baseline={"source": "file:base"})
    same = project.run("run", "-o", "out", "--replay", "tape", "--on-loosened", "fail")
    assert "nothing is less strict than on the base" in same.stdout
    forge(project)
    trick = Trick(EVIDENCE, forge, "changes the recordings that answer (tape/cassette.jsonl, tape/verdicts.jsonl)")
    check_first_lines(project, trick, "--replay", "tape")


@pytest.mark.full
@pytest.mark.models(answer=strict)
def test_a_committed_cache_is_evidence_and_another_is_none(project: Project, models: FakeModels) -> None:
    shop = repository(project)
    judged(shop, models)
    commit(shop)
    judged(shop, models, cache={"mode": "cache", "dir": "kept"}, baseline={"source": "file:base"})
    assert shop.run("run", "-o", "base", "--baseline", "merge-base").code == 1
    assert shop.run("run", "-o", "out", "--on-loosened", "fail").code == 1
    assert "nothing is less strict than on the base" in shop.verdict()["gates"][-1]["reason"]
    for file in (shop.folder / "kept").glob("*.json"):
        file.write_text(file.read_text().replace('\\"score\\": 1,', '\\"score\\": 10,'))
    shutil.rmtree(shop.folder / "kept" / "verdicts", ignore_errors=True)
    commit(shop, "topic")
    said = "takes answers from the recordings in kept instead of calling models at holodeck-action.yaml:"
    check_first_lines(shop, Trick(EVIDENCE, forge, said))


# -- the base


def simple(project: Project, answer: str = "good", **policy: Any) -> None:
    project.suite([{"name": "c", "input": "q"}], [{"type": "code", "grader": "gr:g"}])
    project.write("gr.py", "import helpers\n\n\ndef g(ctx):\n    return helpers.right(ctx.agent_response)\n")
    project.write("helpers.py", RIGHT)
    one_case(project, answer, **policy)


@pytest.mark.full
@pytest.mark.proves("run: --on-changed-code")
def test_the_workflow_accepts_it_and_no_file_does(project: Project) -> None:
    simple(project)
    assert project.run("run", "-o", "base").code == 0
    simple(project, "bad", baseline={"source": "file:base"})
    project.write("helpers.py", LENIENT)
    assert project.run("run", "-o", "out").code == 0
    refused = project.run("run", "-o", "out", "--on-changed-code", "fail")
    assert refused.code == 1
    assert "code that grades or recordings differ from the base, which is not allowed" in refused.stdout
    # The record repeats the decision.
    assert project.run("decide", "out/results.json").code == 1
    strict = ("--on-loosened", "fail")
    assert project.run("run", "-o", "out", *strict).code == 1
    accepted = project.run("run", "-o", "out", *strict, "--on-changed-code", "warn")
    assert (accepted.code, "the code of g (helpers.py)" in accepted.stdout.splitlines()[1]) == (0, True)
    assert "what differs from the base is accepted by the workflow" in accepted.stdout
    # It accepts nothing else.
    simple(project, "bad", baseline={"source": "file:base"}, gates={"min_pass_rate": 0.5})
    project.write("helpers.py", LENIENT)
    assert project.run("run", "-o", "out", *strict, "--on-changed-code", "warn").code == 1
    one_case(project, "bad", baseline={"source": "file:base", "on_changed_code": "warn"})
    assert "on_changed_code" in project.run("run", "-o", "out", *strict).stderr


@pytest.mark.full
def test_an_older_base_makes_it_unknown_and_a_shared_module_is_named(project: Project) -> None:
    simple(project)
    project.write("agent.py", "import helpers\n\n\ndef answer(messages):\n    return 'good'\n")
    project.policy(target="python:agent:answer")
    assert project.run("run", "-o", "base").code == 0
    base = read_record(project.folder / "base" / "results.json")
    project.policy(target="python:agent:answer", baseline={"source": "file:base", "on_loosened": "fail"})
    project.write("helpers.py", f"{RIGHT}\n\nlenient = True\n")
    assert project.run("run", "-o", "out").code == 1
    assert "the code of g (helpers.py, which the target imports too)" in project.verdict()["reason"]
    head = read_record(project.out / "results.json")

    def changes(before: Record) -> list[tuple[str, str]]:
        verdict = decide(head, Terms(base=before))
        assert verdict.comparison is not None
        assert verdict.comparison.terms is not None
        return [(change.way, change.said) for change in verdict.comparison.terms.changes]

    old = replace(base, run=replace(base.run, closure=None))
    said = "has code that grades, recordings or files of cases, which the base's record does not have"
    assert changes(old) == [("unknown", said)]
    assert decide(head, Terms(base=old)).exit_code == 3
    # What surrounds a run is reported, without a reaction.
    assert base.run.closure is not None
    elsewhere = replace(base.run.closure, surroundings={"Python": "3.9.1"})
    assert ("noted", "runs with Python") in [
        (way, said[:16]) for way, said in changes(replace(base, run=replace(base.run, closure=elsewhere)))
    ]


@pytest.mark.full
def test_the_merge_base_has_its_own_code(project: Project) -> None:
    shop = repository(project)
    simple(shop)
    shop.write("agent.py", "def answer(messages):\n    return 'good'\n")
    shop.policy(target="python:agent:answer")
    shop.write("gr.py", GRADER_WITH_OPTION)
    shop.write("option.py", "strict = True\n")
    commit(shop)
    shop.write("README.md", "A shop.\n")
    commit(shop, "topic")
    same = run(shop, "--on-loosened", "fail")
    assert same.code == 0, same.stdout + same.stderr
    shop.write("agent.py", "def answer(messages):\n    return 'bad'\n")
    (shop.folder / "option.py").unlink()
    commit(shop)
    gone = run(shop, "--on-loosened", "fail")
    assert gone.code == 1
    assert "changes the code of g (option.py)" in gone.stdout


GRADER_WITH_OPTION = """
try:
    from option import strict
except ImportError:
    strict = False


def g(ctx):
    return ctx.agent_response == "good" or not strict
"""


def test_everything_that_starts_code_or_has_a_trick_has_a_kind() -> None:
    names = [kind.name for kind in KINDS]
    assert names == [*get_args(KindName)]
    rows = [f"| {kind.name} | {kind.holds} | {kind.record} | {kind.reaction} |" for kind in KINDS]
    table = ["| kind | what it holds | in the record | a change since the base |", "|---|---|---|---|", *rows, ""]
    assert "\n".join(table) in (ROOT / "docs" / "verdict.md").read_text(encoding="utf-8")
    assert {starter.kind for starter in CODE_STARTERS} <= {*names, None}
    tricks = [*GRADED.values(), *(trick for *_, trick in OTHERS.values())]
    grading = [starter.feature for starter in CODE_STARTERS if starter.kind == CODE]
    assert [
        each for each in grading if not any(trick.starter and each.startswith(trick.starter) for trick in tricks)
    ] == []


# -- every file that a run reads

WATCHED: list[str] = []
"""Paths that this process opens while a run is watched; empty if none is."""
WATCHING = False


def note_opened(event: str, arguments: tuple[Any, ...]) -> None:
    if WATCHING and event == "open" and isinstance(arguments[0], str):
        WATCHED.append(arguments[0])


@pytest.mark.full
def test_every_file_of_the_checkout_that_a_run_reads_has_a_kind(project: Project, monkeypatch: Any) -> None:
    """Files are opened by their last name, below a folder that is open: names are enough."""
    graded(project)
    metrics = [{"type": "code", "grader": "gr:g"}]
    project.suite([], metrics, test_cases=None, test_cases_file="cases.yaml", instructions={"file": "instructions.md"})
    project.write("instructions.md", "Answer.")
    project.write("doc.txt", "a document")
    project.write("order.schema.json", json.dumps({"type": "number"}))
    attached = {"files": [{"path": "doc.txt", "type": "text"}]}
    numbers = {"expect": [{"json": "order.schema.json"}]}
    cases = [{"name": "c", "input": "q", **attached}, {"name": "d", "input": "r", **numbers}]
    project.write("cases.yaml", json.dumps(cases))
    project.write("rules.txt", "good 1")
    project.answers([{"case": "c", "response": "good"}, {"case": "d", "response": "1"}])
    module = sys.modules[__name__]
    sys.addaudithook(note_opened)
    monkeypatch.setattr(module, "WATCHING", True)
    finished = project.run("run", "-o", "out")
    monkeypatch.setattr(module, "WATCHING", False)
    assert finished.code == 0, finished.stdout + finished.stderr
    own = {path.name for path in project.folder.iterdir() if path.is_file()}
    read = {Path(path).name for path in WATCHED} & own
    kinds = {
        CODE: set(closure(project).code),
        # The digest of the schema is a setting of its metric.
        QUESTIONS: {
            "agent.yaml",
            "holodeck-action.yaml",
            "cases.yaml",
            "order.schema.json",
            *closure(project).attached,
        },
        "tested": {"answers.jsonl", "instructions.md"},
    }
    assert read - set().union(*kinds.values()) == set()
    assert {"agent.yaml", "cases.yaml", "answers.jsonl", "gr.py", "doc.txt", "order.schema.json"} <= read
