"""A metric of each kind as one file in the package: everything else finds it by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import holodeck_action
from holodeck_action.record.result_files import read_record
from tests.commands.project import Finished, Project, evaluations
from tests.llm.models import KEY, Answer, FakeModels, Request

_HEAD = """
from typing import Annotated, Literal

from pydantic import BaseModel

from holodeck_action.metrics.computed import ComputedMetric
from holodeck_action.metrics.judging.asking import AskingMetric, YesNo, ask_verdict
from holodeck_action.metrics.params import EvalParam, ParamSpec
from holodeck_action.metrics.text_checks import TextCheck
from holodeck_action.suite.model.base import NonBlank, UnitInterval
from holodeck_action.suite.model.metric_base import GROUND_TRUTH, Role
from holodeck_action.suite.model.providers import LLMProvider

ASKED = frozenset({EvalParam.INPUT, EvalParam.ACTUAL_OUTPUT})
"""

FILES = {
    "spread": '''
class SpreadMetric(ComputedMetric):
    """`type: spread`: the share of different words."""

    PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.RESPONSE}))

    type: Annotated[Literal["spread"], Role.KIND] = "spread"
    threshold: Annotated[UnitInterval | None, Role.PASS_MARK] = None
    """Lowest passing share. Example: `0.5`."""

    def compute(self, **given):
        words = given["response"].split()
        return self.result(len(set(words)) / max(len(words), 1), "different words were counted")
''',
    "mentions": '''
class MentionsMetric(TextCheck):
    """`type: mentions`: the answer mentions a text."""

    SHORT = "value"

    type: Annotated[Literal["mentions"], Role.KIND] = "mentions"
    value: NonBlank
    """The text. Example: `42`."""

    def check(self, response):
        found = self.normalize(self.value) in self.normalize(response)
        return float(found), f"it mentions {self.value}: {found}", {}
''',
    "judging/warmth": '''
class WarmthMetric(AskingMetric):
    """`type: warmth`: a judge decides whether the answer is warm."""

    PARAM_SPEC = ParamSpec(required=ASKED)

    type: Annotated[Literal["warmth"], Role.KIND] = "warmth"
    threshold: Annotated[UnitInterval | None, Role.PASS_MARK] = None
    """Lowest passing score. Example: `1`."""
    model: Annotated[LLMProvider | None, Role.JUDGES] = None
    """The judge."""

    async def grade(self, inputs, use):
        found = await ask_verdict(use.judge, f"Is this warm? {inputs['actual_output']}", YesNo)
        return self.result(float(found.verdict == "yes"), found.reason, {"judge": use.judge.label})
''',
    "steady": '''
class SteadyMetric(ComputedMetric):
    """`type: steady`: no answer of the conversation is repeated."""

    OF_CONVERSATION = True
    PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.TURNS}))

    type: Annotated[Literal["steady"], Role.KIND] = "steady"
    threshold: Annotated[UnitInterval | None, Role.PASS_MARK] = None
    """Lowest passing share of different answers. Example: `1`."""

    @property
    def reads_turns(self):
        return True

    def compute(self, **given):
        answers = [turn.response for turn in given["turns"]]
        return self.result(len(set(answers)) / len(answers), f"{len(answers)} answers were compared")
''',
    "judging/shorter": '''
class Choice(BaseModel):
    reason: str
    verdict: Literal["first", "second", "tie"]


class ShorterMetric(AskingMetric):
    """`type: shorter`: a judge decides which of two answers is shorter."""

    OF_PAIR = True
    OF_CONVERSATION = True
    PARAM_SPEC = ParamSpec(required=ASKED | {EvalParam.OTHER_RESPONSE})

    type: Annotated[Literal["shorter"], Role.KIND] = "shorter"
    model: Annotated[LLMProvider | None, Role.JUDGES] = None
    """The judge."""

    async def grade(self, inputs, use):
        prompt = f"Which is shorter? {inputs['actual_output']} | {inputs['other_response']}"
        found = await ask_verdict(use.judge, prompt, Choice)
        return self.result({"first": 1.0, "tie": 0.5, "second": 0.0}[found.verdict], found.reason)
''',
}
KINDS = {name.rpartition("/")[2] for name in FILES}

LISTED = """
import json
from holodeck_action.metrics.registry import built_in
from holodeck_action.suite.suite_schemas import suite_schema
from scripts import build_api_reference, build_field_reference, build_metric_catalogue, build_stubs
schema = json.dumps(suite_schema("agent", built_in()))
builders = (build_api_reference, build_field_reference, build_metric_catalogue)
pages = [*(each.build_page() for each in builders), build_stubs.metrics_stub()]
print(json.dumps([schema, *pages]))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with this package and the metric files."""
    source, folder = Path(holodeck_action.__file__).parent, tmp_path / "copy"
    for below in ("", "metrics", "metrics/judging"):
        target = folder / "holodeck_action" / below
        target.mkdir(parents=True, exist_ok=True)
        for entry in (source / below).iterdir():
            if entry.name not in ("metrics", "judging", "__pycache__"):
                (target / entry.name).symlink_to(entry)
    for name, text in FILES.items():
        (folder / "holodeck_action" / "metrics" / f"{name}.py").write_text(_HEAD + text)
    for name in ("scripts", "templates", "docs"):
        (folder / name).symlink_to(source.parent / name)
    return folder


def environ(package: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1", "OPENAI_API_KEY": KEY}


def answering(request: Request) -> Answer:
    return Answer('{"reason": "so it is", "verdict": "%s"}' % ("yes" if "warm" in request.text else "first"))


@pytest.fixture
def talk(project: Project, package: Path, models: FakeModels) -> Project:
    """Two conversations of two turns, with a metric of each kind."""
    models.answer(answering)
    judges = [{"provider": "openai", "name": name, "endpoint": models.openai_url} for name in ("one", "two")]
    metrics: list[dict[str, Any]] = [
        {"type": "spread", "threshold": 0.5},
        {"type": "warmth", "threshold": 1, "scope": "conversation", "judges": {"models": judges}},
        {"type": "steady", "threshold": 1},
        {"type": "shorter", "model": judges[0]},
    ]
    turns = [{"input": text, "expect": [{"mentions": 42}]} for text in ("How many?", "And now?")]
    cases = [{"name": name, "turns": turns} for name in ("first", "second")]
    project.suite(cases, metrics)
    for file, said in (("base", "It is 42 again"), ("head", "It is 42 so far")):
        rows = [{"case": case["name"], "turn": turn, "response": f"{said} {turn}"} for case in cases for turn in (0, 1)]
        project.answers(rows, f"{file}.jsonl")
    project.policy()
    return project


def run(project: Project, package: Path, *arguments: str, code: int = 0) -> Finished:
    finished = project.run_interpreter(*arguments, **environ(package))
    assert finished.code == code, finished.stdout + finished.stderr
    return finished


@pytest.mark.full
@pytest.mark.needs("preference")
def test_a_metric_of_each_kind_is_one_file(talk: Project, package: Path, models: FakeModels) -> None:
    run(talk, package, "validate")
    run(talk, package, "run", "--target", "recorded:base.jsonl", "-o", "base", "--record", "tape", code=3)
    head = ("run", "--target", "recorded:head.jsonl", "--baseline", "file:base", "-o", "out")
    run(talk, package, *head, "--record", "tape")
    record = read_record(talk.out / "results.json")
    scores = {kind: {each.score for each in evaluations(record) if each.criteria.kind == kind} for kind in KINDS}
    assert scores == {"spread": {1.0}, "mentions": {1.0}, "warmth": {1.0}, "steady": {1.0}, "shorter": {0.5}}
    panels = [each.metadata["panel"]["verdicts"] for each in evaluations(record) if each.criteria.kind == "warmth"]
    assert [len(verdicts) for verdicts in panels] == [2, 2]
    thresholds = {each.criteria.kind: each.criteria.threshold for each in evaluations(record)}
    assert thresholds == {"spread": 0.5, "mentions": 1.0, "warmth": 1.0, "steady": 1.0, "shorter": None}
    asked = len(models.requests)
    run(talk, package, *head, "--replay", "tape")
    assert len(models.requests) == asked
    again = read_record(talk.out / "results.json")
    assert [each.score for each in evaluations(again)] == [each.score for each in evaluations(record)]
    page = (talk.out / "report.html").read_text(encoding="utf-8")
    listed = subprocess.run(
        [sys.executable, "-c", LISTED],
        cwd=package,
        env={**os.environ, **environ(package)},
        check=True,
        stdout=subprocess.PIPE,
    )
    schema, api, fields, catalogue, stub = json.loads(listed.stdout)
    for kind in KINDS:
        name = kind.title()
        assert f'"{name}Metric"' in schema
        assert f"### {name}Metric" in fields
        assert f"`{name}`" in api
        assert f"| `{kind}` |" in catalogue
        assert f"{name} = {name}Metric" in stub
        assert kind in page
    suite = (talk.folder / "agent.yaml").read_text(encoding="utf-8")
    talk.write("agent.yaml", suite.replace("mentions", "mention"))
    assert 'did you mean "mentions"?' in run(talk, package, "validate", code=2).stderr
