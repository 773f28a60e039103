"""Packages that bring metrics: judged ones are planned, kept and composed like ours, and broken ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from holodeck_action.record.result_files import read_record
from tests.commands.project import Project, evaluations
from tests.llm.models import KEY, Answer, FakeModels

POLITE = '''
from typing import Annotated, Literal

from holodeck_action.metrics.judging.refusal import RefusalMetric
from holodeck_action.suite.model.base import Flag
from holodeck_action.suite.model.metric_base import JudgedMetric, Role
from holodeck_action.suite.model.providers import LLMProvider


class PoliteMetric(JudgedMetric):
    """`type: polite`: whether the answer helps."""

    type: Annotated[Literal["polite"], Role.KIND] = "polite"
    strict: Flag = False
    """Whether it is."""
    model: Annotated[LLMProvider | None, Role.JUDGES] = None

    @property
    def pass_mark(self):
        return 1.0

    def evaluator(self, building):
        return RefusalMetric().evaluator(building, self)


class Untyped(JudgedMetric):
    pass


class Taken(PoliteMetric):
    type: Literal["geval"] = "geval"


SOMETHING = 5
'''


ODD = """
from typing import Literal

from holodeck_action.metrics.base import EvaluationResult
from holodeck_action.metrics.computed import ComputedMetric
from holodeck_action.metrics.params import EvalParam, ParamSpec


class OddMetric(ComputedMetric):
    PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.RESPONSE}))

    type: Literal["odd"] = "odd"

    def compute(self, *, response):
        return EvaluationResult(score=1.0, passed=True, metric_name="odd", **eval(f"dict({response})"))
"""


def site(folder: Path, value: str, text: str = POLITE) -> str:
    """Put a package where an installer would, with one entry point."""
    about = folder / "polite-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: polite\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[holodeck_action.metrics]\npolite = {value}\n")
    (folder / "polite.py").write_text(text)
    return str(folder)


@pytest.mark.needs
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("absent:PoliteMetric", "cannot be imported (ModuleNotFoundError: No module named 'absent')"),
        ("polite:Absent", "cannot be imported (AttributeError: module 'polite' has no attribute 'Absent')"),
        ("polite:SOMETHING", "is not a subclass of holodeck_action.suite.model.metric_base.Metric"),
        ("polite:Untyped", 'needs the field `type: Literal["polite"] = "polite"`'),
        ("polite:Taken", "defines the type geval, which already exists: rename it"),
    ],
)
def test_a_broken_entry_point_is_a_configuration_error(
    project: Project, tmp_path: Path, value: str, problem: str
) -> None:
    project.numbered(1)
    finished = project.run("validate", PYTHONPATH=site(tmp_path / "site", value))
    assert finished.code == 2, finished.stdout + finished.stderr
    assert f"the metric polite of the package polite (entry point {value} of the group" in finished.stderr
    assert problem in finished.stderr


@pytest.mark.full
@pytest.mark.parametrize("command", [("run", "-o", "out"), ("schema", "agent")])
def test_every_command_that_knows_metrics_refuses_a_broken_one(
    project: Project, tmp_path: Path, command: tuple[str, ...]
) -> None:
    project.numbered(1)
    finished = project.run(*command, PYTHONPATH=site(tmp_path / "site", "absent:PoliteMetric"))
    assert finished.code == 2, finished.stdout + finished.stderr
    assert "entry point absent:PoliteMetric of the group" in finished.stderr


NOT_STORED = {
    'metadata={"a": float("nan")}': "Out of range float values",
    'metadata={"a": [object()]}': "no JSON for object",
    "metadata={(1, 2): 3}": "Only dicts with str-like or number-like keys are supported",
    'metadata={"a": "\\ud800"}': "surrogates not allowed",
    'raw_score=float("nan")': "Out of range float values",
    'evaluation_steps=("\\ud800",)': "surrogates not allowed",
}


@pytest.mark.full
def test_what_no_record_can_hold_is_an_error_of_its_case(project: Project, tmp_path: Path) -> None:
    project.suite(
        [{"name": text, "input": "Is it open?"} for text in (*NOT_STORED, "metadata={}")],
        [{"type": "odd"}, {"type": "length", "min_words": 1}],
    )
    project.answers([{"case": text, "response": text} for text in (*NOT_STORED, "metadata={}")])
    project.policy(target="recorded:answers.jsonl")
    finished = project.run("run", "-o", "out", PYTHONPATH=site(tmp_path / "site", "polite:OddMetric", ODD))
    assert finished.code == 3, finished.stdout + finished.stderr
    found = [case.trials[0].turns[0].evaluations for case in read_record(project.out / "results.json").cases]
    assert {length.status for _, length in found} == {"completed"}
    odds = [odd for odd, _ in found]
    assert [odd.status for odd in odds] == ["failed"] * len(NOT_STORED) + ["completed"]
    for odd, problem in zip(odds, NOT_STORED.values(), strict=False):
        assert odd.error is not None
        assert odd.error.code == "invalid_result"
        assert problem in odd.error.message


@pytest.mark.full
def test_a_judged_metric_of_a_package_is_planned_composed_and_kept_like_ours(project: Project, tmp_path: Path) -> None:
    environ = {"PYTHONPATH": site(tmp_path / "site", "polite:PoliteMetric"), "OPENAI_API_KEY": KEY}
    with FakeModels(keys=[KEY]) as models:
        models.answer(lambda _: Answer('{"reason": "It helps.", "verdict": "no"}'))
        polite = {"type": "polite", "strict": True}
        project.suite(
            [{"name": "one", "input": "Is it open?"}],
            [polite, {"type": "composite", "metrics": [{**polite, "name": "inner"}]}],
            model={"provider": "openai", "name": "judge", "endpoint": models.openai_url},
        )
        project.answers([{"case": "one", "response": "Yes."}])
        project.policy(target="recorded:answers.jsonl")
        planned = project.run("run", "--dry-run", **environ)
        assert "2 calls of openai/judge" in planned.stdout, planned.stdout + planned.stderr
        finished, record = project.evaluate("--cache", "kept", **environ)
        assert finished.code == 0, finished.stdout + finished.stderr
        assert {found.criteria.kind: found.criteria.settings for found in evaluations(record)} == {
            "polite": {"strict": True},
            "composite": {"metrics": [{"type": "polite", "name": "inner", "strict": True}]},
        }
        assert {*record.configurations} == {"composite", "polite"}
        asked = len(models.requests)
        again, record = project.evaluate("--cache", "kept", **environ)
        assert (again.code, len(models.requests)) == (0, asked)
        assert [found.cached for found in evaluations(record)] == [True, True]
