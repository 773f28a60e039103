"""What decides the scores of a judged metric: which part of it differs when a setting does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields

from holodeck_action.record.judge_card import Configuration
from holodeck_action.scoring.configurations import configuration_of
from holodeck_action.text.redaction import Redactor
from tests.suite.folders import load
from tests.tables import walk

pytestmark = pytest.mark.needs("deepeval")

ENVIRON = {"OPENAI_API_KEY": "sk-one", "AZURE_OPENAI_API_KEY": "sk-azure"}
JUDGE = {"provider": "openai", "name": "judge", "endpoint": "https://models.example/v1"}
AZURE = {"provider": "azure_openai", "name": "judge", "endpoint": "https://azure.example", "api_version": "2024-06-01"}
GEVAL = {"type": "geval", "name": "quality", "criteria": "Is it good?", "model": JUDGE}
ALONE = {name: value for name, value in GEVAL.items() if name != "model"}
RELEVANCY = {"type": "rag", "metric_type": "answer_relevancy", "model": JUDGE}
COMPOSITE = {"type": "composite", "name": "both", "metrics": [GEVAL, RELEVANCY]}
PANEL = {"models": [JUDGE, {**JUDGE, "name": "second"}]}


def configuration(
    folder: Path,
    metric: Mapping[str, Any],
    judges: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] = ENVIRON,
    secrets: frozenset[str] = frozenset(),
    version: str = "1.0.0",
) -> Configuration | None:
    """The configuration of the one metric of a suite."""
    agent = {
        "name": "a",
        "model": {"provider": "openai", "name": "tested"},
        "instructions": {"inline": "hi"},
        "evaluations": {"metrics": [metric, {"type": "standard", "metric": "equality"}]},
        "test_cases": [{"name": "x", "input": "a", "ground_truth": "b"}],
    }
    policy = {"judges": judges} if judges is not None else {}
    suite = load(folder, json.dumps(agent), {"holodeck-action.yaml": json.dumps(policy)}, environ=environ)
    spec = suite.cases[0].turns[0].metrics[0]
    return configuration_of(suite, spec, version, environ, Redactor(secrets))


def differing(one: Configuration | None, other: Configuration | None) -> set[str]:
    assert one is not None
    assert other is not None
    return {item.name for item in fields(Configuration) if getattr(one, item.name) != getattr(other, item.name)}


def judged_by(**changes: Any) -> dict[str, Any]:
    return {**GEVAL, "model": {**JUDGE, **changes}}


@walk(
    ("before", "after", "parts"),
    [
        (GEVAL, judged_by(name="other"), {"judges"}),
        (GEVAL, judged_by(temperature=0.9), {"model_settings"}),
        (GEVAL, judged_by(max_tokens=77), {"model_settings"}),
        (GEVAL, judged_by(top_p=0.4), {"model_settings"}),
        (GEVAL, judged_by(endpoint="https://other.example/v1"), {"addresses"}),
        (GEVAL, judged_by(endpoint="https://models.example/v2"), {"addresses"}),
        (
            {**GEVAL, "model": AZURE},
            {**GEVAL, "model": {**AZURE, "api_version": "2024-10-21"}},
            {"addresses"},
        ),
        (GEVAL, {**GEVAL, "criteria": "Is it kind?"}, {"metric"}),
        (GEVAL, {**GEVAL, "evaluation_steps": ["Read."]}, {"metric"}),
        (GEVAL, {**GEVAL, "strict_mode": True}, {"metric"}),
        (GEVAL, {**GEVAL, "threshold": 0.9}, set()),
        (GEVAL, {**GEVAL, "timeout_ms": 9000, "retry_on_failure": 2, "fail_on_error": True}, set()),
        (GEVAL, judged_by(api_key="sk-written"), set()),
        (RELEVANCY, {**RELEVANCY, "metric_type": "faithfulness"}, {"metric"}),
        (COMPOSITE, {**COMPOSITE, "metrics": [GEVAL, {**RELEVANCY, "model": {**JUDGE, "name": "b"}}]},
         {"judges", "metric"}),
        (COMPOSITE, {**COMPOSITE, "metrics": [{**GEVAL, "threshold": 0.9}, RELEVANCY]}, {"metric"}),
        ({**ALONE, "judges": PANEL}, {**ALONE, "judges": {**PANEL, "aggregation": "mean"}}, {"panel"}),
        ({**ALONE, "judges": PANEL}, {**ALONE, "judges": {**PANEL, "min_successful_judges": 2}}, {"panel"}),
        ({**ALONE, "judges": PANEL}, {**ALONE, "judges": {**PANEL, "max_concurrent_judges": 1}}, set()),
        (
            {**ALONE, "judges": PANEL},
            {**ALONE, "judges": {"models": PANEL["models"][:1], "fallback_models": PANEL["models"][1:]}},
            {"panel"},
        ),
    ],
)  # fmt: skip
def test_the_part_that_differs_is_told(
    tmp_path: Path, before: dict[str, Any], after: dict[str, Any], parts: set[str]
) -> None:
    assert differing(configuration(tmp_path, before), configuration(tmp_path, after)) == parts


def test_the_judges_are_named_in_their_order(tmp_path: Path) -> None:
    fallback = {**JUDGE, "name": "third"}
    found = configuration(tmp_path, GEVAL, {**PANEL, "fallback_models": [fallback], "cards": ["a.json"]})
    assert found is not None
    assert found.judges == ("openai/judge", "openai/second", "openai/third")
    # Which cards there are is no part of how is judged.
    assert found == configuration(tmp_path, GEVAL, {**PANEL, "fallback_models": [fallback]})


def test_versions_of_formula_and_package_are_told(tmp_path: Path) -> None:
    found = configuration(tmp_path, GEVAL, version="7.1")
    assert found is not None
    assert found.version.startswith("7.1, deepeval ")
    assert differing(found, configuration(tmp_path, GEVAL)) == {"version"}


def test_where_no_model_grades_or_none_is_found_there_is_none(tmp_path: Path) -> None:
    assert configuration(tmp_path, {"type": "standard", "metric": "bleu"}) is None
    assert configuration(tmp_path, GEVAL, environ={}) is None


def test_nothing_of_a_secret_is_in_it(tmp_path: Path) -> None:
    planted = "planted-secret-77"
    with_secret = judged_by(endpoint=f"https://models.example/{planted}", name=f"judge-{planted}")
    other = judged_by(endpoint="https://models.example/another-secret", name="judge-another-secret")
    one = configuration(tmp_path, with_secret, secrets=frozenset((planted,)))
    assert one is not None
    assert planted not in repr(one)
    # Not even its digest.
    assert one == configuration(tmp_path, other, secrets=frozenset(("another-secret",)))
