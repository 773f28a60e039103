"""What all judged metrics share counts for every type: pairs of cases in one run, whose judges give no verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from holodeck_action.metrics.registry import built_in
from holodeck_action.metrics.standard import StandardMetric
from holodeck_action.record.evaluation import Evaluation
from tests.commands.project import Project
from tests.llm.models import KEY, FakeModels, Fault, Request
from tests.llm.models.values import Reply

pytestmark = pytest.mark.needs()

STEPS = ["Read the answer."]
KINDS: dict[str, dict[str, Any]] = {
    "standard": {"metric": "coherence"},
    "geval": {"criteria": "kind", "evaluation_steps": STEPS},
    "rag": {"metric_type": "answer_relevancy"},
    "deepeval": {"metric": "BiasMetric"},
    "azure": {"metric": "RelevanceEvaluator"},
    "generation": {},
    "query_transformation": {},
    "summarization": {},
    "lm_retrieval": {},
    "agent": {},
    "refusal": {},
    "trajectory_accuracy": {"threshold": 0.5},
    "quality": {"threshold": 0.5},
    "factual_accuracy": {"threshold": 0.5},
    "toxicity": {"threshold": 0.5},
    "relevance": {"threshold": 0.5},
    "composite": {"metrics": [{"type": "refusal"}]},
}
CALLED = [{"name": "search", "args": {}}]


@dataclass(frozen=True)
class Seen:
    """What came of one case, and how often each model was asked about it."""

    outcome: str
    evaluation: Evaluation
    asked: Counter[str]


class Where:
    """The judges: those of Azure AI's metrics are deployments."""

    def __init__(self, models: FakeModels) -> None:
        self._models = models

    def model(self, kind: str, name: str) -> dict[str, Any]:
        if kind == "standard":
            return {
                "provider": "azure_openai",
                "name": name,
                "endpoint": self._models.azure_url,
                "api_key": KEY,
            }
        return {"provider": "openai", "name": name, "endpoint": self._models.openai_url, "api_key": KEY}

    def setting(self, kind: str, setting: str) -> dict[str, Any]:
        if setting == "model":
            return {"model": self.model(kind, "another")}
        if setting == "judges":
            return {"judges": {"models": [self.model(kind, "one"), self.model(kind, "two")]}}
        return {setting: {"fail_on_error": True, "timeout_ms": 200, "retry_on_failure": 1}[setting]}


SHARED = ("fail_on_error", "timeout_ms", "retry_on_failure")
TRIED = [(kind, setting) for kind in KINDS for setting in SHARED] + [
    (kind, setting) for kind in KINDS for setting in ("model", "judges") if kind != "composite"
]


def no_verdict(request: Request) -> Reply:
    if "[retry_on_failure" in request.text:
        return Fault(error="server_error", retry_after="0")
    return "I would rather not say."


def case(name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "input": f"A question [{name}]",
        "ground_truth": f"expected [{name}]",
        "retrieval_context": [f"a text [{name}]"],
        "expected_tools": ["search"],
        # Metrics of different settings must not share a name.
        "evaluations": [{**entry, "name": name}],
    }


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    """What came of all cases, by name."""
    project = Project(tmp_path_factory.mktemp("common"))
    with FakeModels(keys=[KEY]) as models:
        models.answer(no_verdict)
        # These would wait for ever.
        models.latency = lambda request: 600.0 if "[timeout_ms" in request.text and "with]" in request.text else 0.0
        where = Where(models)
        cases = []
        for kind, setting in TRIED:
            own = {} if kind == "composite" else {"model": where.model(kind, "judge")}
            entry: dict[str, Any] = {"type": kind, **own, **KINDS[kind]}
            if kind == "composite":
                entry["metrics"] = [{**each, "model": where.model(kind, "judge")} for each in entry["metrics"]]
            cases.append(case(f"{setting} {kind} without", entry))
            with_setting = {**entry, **where.setting(kind, setting)}
            if setting == "judges":
                del with_setting["model"]
            cases.append(case(f"{setting} {kind} with", with_setting))
        project.suite(cases, model=where.model("", "judge"))
        project.answers(
            [
                {"case": each["name"], "response": f"an answer [{each['name']}]", "tool_invocations": CALLED}
                for each in cases
            ]
        )
        project.policy(target="recorded:answers.jsonl", ground_truth="unused")
        finished, record = project.evaluate()
        assert finished.code in (1, 3), finished.stdout + finished.stderr
        assert models.violations == []
        asked: dict[str, Counter[str]] = {each["name"]: Counter() for each in cases}
        for request in models.requests:
            (name,) = {name for name in asked if f"[{name}]" in request.text}
            asked[name][request.model] += 1
    outcomes = {each["id"]: each["judged"] for each in project.verdict()["cases"]}
    return {
        str(found.name): Seen(outcomes[found.id], found.trials[0].turns[0].evaluations[0], asked[str(found.name)])
        for found in record.cases
    }


@pytest.mark.needs
def test_every_judged_type_is_tried() -> None:
    judged = {name for name, kind in built_in().classes.items() if "judges" in kind.model_fields or name == "composite"}
    # These two grade a simulated user, and a pair of answers.
    assert judged == {*KINDS} | {"simulated_user", "preference"}
    assert StandardMetric(metric="coherence").needs_judge


def code(found: Seen) -> str:
    assert found.evaluation.error is not None, found.evaluation
    return found.evaluation.error.code or ""


@pytest.mark.full
@pytest.mark.proves("Metric: fail_on_error timeout_ms retry_on_failure", "JudgedMetric: judges")
@pytest.mark.parametrize(("kind", "setting"), TRIED)
def test_a_shared_setting_counts_for_every_type(seen: dict[str, Seen], kind: str, setting: str) -> None:
    without, given = seen[f"{setting} {kind} without"], seen[f"{setting} {kind} with"]
    match setting:
        case "fail_on_error":
            assert (without.outcome, given.outcome) == ("passed", "failed")
        case "timeout_ms":
            assert (code(without) == "timeout", code(given)) == (False, "timeout")
            assert given.evaluation.error is not None
            assert given.evaluation.error.message.endswith("took longer than 0.2 s")
        case "retry_on_failure":
            assert without.asked["judge"] > 0
            assert given.asked["judge"] == 2 * without.asked["judge"]
        case "model":
            assert ({*without.asked}, {*given.asked}) == ({"judge"}, {"another"})
        case _:
            assert ({*without.asked}, {*given.asked}) == ({"judge"}, {"one", "two"})
