"""Required inputs, skips, what asserts, thresholds; and the suites that this makes configuration errors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holodeck_action.metrics.registry import built_in
from holodeck_action.suite.applicability import (
    case_asserts,
    missing_static_inputs,
    reads_tool_calls,
    skip_reason,
)
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.loader import load_suite
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.values import ExpectedTool, MetricSpec, ToolExpectation, Turn
from tests.suite.folders import HEAD, complaints, load, load_policy_of
from tests.tables import walk

MARK = SourceMark("agent.yaml", 1, 1)


def metric_of(entry: Mapping[str, Any]) -> Metric:
    return built_in().read("case", entry)


def config(**entry: Any) -> dict[str, Any]:
    return entry


def code(**entry: Any) -> dict[str, Any]:
    return config(type="code", grader="a:b", **entry)


def geval(**entry: Any) -> dict[str, Any]:
    return config(type="geval", name="g", criteria="c", **entry)


def rag(name: str, **entry: Any) -> dict[str, Any]:
    return config(type="rag", metric_type=name, **entry)


def retrieval(**entry: Any) -> dict[str, Any]:
    return config(type="retrieval", metric="recall_at_k", **entry)


TEXT = ("f1_score", "bleu", "rouge", "meteor")
AZURE = ("groundedness", "relevance", "coherence", "fluency", "similarity")


@pytest.mark.needs("azure", "deepeval")
@pytest.mark.proves("GEvalMetric: evaluation_params")
@walk(
    ("metric", "inputs"),
    [
        *((config(metric=name), {"ground_truth"}) for name in (*TEXT, "equality", "numeric", "similarity")),
        *((config(metric=name), set()) for name in AZURE if name != "similarity"),
        (geval(evaluation_params=["actual_output", "context"]), {"context"}),
        (rag("faithfulness"), {"retrieval_context"}),
        (rag("answer_relevancy"), set()),
        (rag("contextual_relevancy"), {"retrieval_context"}),
        (rag("contextual_precision"), {"retrieval_context", "ground_truth"}),
        (rag("contextual_recall"), {"retrieval_context", "ground_truth"}),
        (geval(), set()),
        (
            geval(evaluation_params=["input", "actual_output", "expected_output", "retrieval_context"]),
            {"ground_truth", "retrieval_context"},
        ),
        (code(), set()),
        (config(type="tool_correctness"), {"expected_tools"}),
        (config(type="deepeval_tool_correctness"), {"expected_tools"}),
        (config(type="trajectory"), {"expected_trajectory"}),
        (retrieval(), {"ground_truth_chunk_ids", "retrieved_chunks"}),
        (config(type="length", max_words=3), set()),
    ],
)
def test_required_inputs(metric: Mapping[str, Any], inputs: set[str]) -> None:
    assert metric_of(metric).needs == inputs


@pytest.mark.needs("azure", "deepeval")
@walk(
    ("metric", "expected"),
    [
        *((config(metric=name), False) for name in (*TEXT, *AZURE)),
        *((config(metric=name, threshold=0.0), True) for name in (*TEXT, *AZURE)),
        (config(metric="equality"), True),
        (config(metric="numeric"), True),
        (config(metric="numeric", enabled=False), False),
        (config(metric="rouge", threshold=0.5, enabled=False), False),
        (code(), True),
        (code(enabled=False), False),
        (geval(), True),
        (rag("faithfulness"), True),
        (config(type="length", max_words=3), True),
        *((config(type="trajectory", mode=mode), True) for mode in ("strict", "unordered", "subset", "superset")),
        (config(type="trajectory", mode="lcs_f1"), False),
        (config(type="trajectory", mode="lcs_f1", threshold=0.5), True),
        (config(type="tool_correctness"), False),
        (config(type="tool_correctness", threshold=0.5), True),
        (config(type="deepeval_tool_correctness"), True),
        (retrieval(), False),
        (retrieval(threshold=0.5), True),
    ],
)
def test_what_asserts(metric: Mapping[str, Any], expected: bool) -> None:
    assert metric_of(metric).asserts is expected


@pytest.mark.needs("azure", "deepeval")
@walk(
    ("metric", "expected"),
    [
        *((config(metric=name), None) for name in (*TEXT, *AZURE)),
        *((config(metric=name, threshold=0.3), 0.3) for name in (*TEXT, *AZURE, "equality", "numeric")),
        (config(metric="relevance", threshold=4, scale=5), 0.75),
        (config(metric="relevance", threshold=1, scale=5), 0.0),
        (config(metric="relevance", threshold=80, scale=100), 0.8),
        (config(metric="rouge", threshold=4, scale=5), 0.8),
        (config(metric="equality"), 1.0),
        (config(metric="numeric"), 1.0),
        (geval(), 0.5),
        (geval(threshold=0.0), 0.0),
        (rag("faithfulness"), 0.5),
        (rag("faithfulness", threshold=0.7), 0.7),
        (code(), None),
        (code(threshold=7, scale={"min": 0, "max": 10}), 7.0),
        (config(type="length", max_words=3), 1.0),
        (config(type="length", max_words=3, threshold=0.5), 0.5),
        *((config(type="trajectory", mode=mode), 1.0) for mode in ("strict", "unordered", "subset", "superset")),
        (config(type="trajectory", mode="lcs_f1"), None),
        (config(type="trajectory", mode="strict", threshold=0.5), 0.5),
        (config(type="tool_correctness"), None),
        (config(type="deepeval_tool_correctness"), 0.5),
        (config(type="deepeval_tool_correctness", threshold=0.2, strict_mode=True), 1.0),
        (retrieval(threshold=0.5), 0.5),
    ],
)
def test_effective_threshold(metric: Mapping[str, Any], expected: float | None) -> None:
    assert metric_of(metric).pass_mark == expected


@pytest.mark.needs("azure", "deepeval")
@walk(
    ("metric", "expected"),
    [
        *((config(metric=name), False) for name in (*TEXT, "equality", "numeric")),
        *((config(metric=name), True) for name in AZURE),
        (geval(), True),
        (rag("faithfulness"), True),
        (code(), False),
        (retrieval(), False),
        (config(type="trajectory"), False),
        (config(type="tool_correctness"), False),
        (config(type="deepeval_tool_correctness"), False),
        (config(type="length", max_words=3), False),
    ],
)
def test_what_needs_a_judge(metric: Mapping[str, Any], expected: bool) -> None:
    assert metric_of(metric).needs_judge is expected


BARE = Turn(0, "a", MARK)
FULL = Turn(
    0,
    "a",
    MARK,
    "b",
    expected_tools=ToolExpectation(()),
    expected_trajectory=(ExpectedTool("f"),),
    ground_truth_chunk_ids={"x": 1.0},
)


@pytest.mark.needs("azure", "deepeval")
@walk(
    ("metric", "missing"),
    [
        (config(metric="rouge"), ("ground_truth",)),
        (rag("contextual_recall"), ("ground_truth",)),
        (rag("faithfulness"), ()),
        (config(type="tool_correctness"), ("expected_tools",)),
        (config(type="deepeval_tool_correctness"), ("expected_tools",)),
        (config(type="trajectory"), ("expected_trajectory",)),
        (retrieval(), ("ground_truth_chunk_ids",)),
        (code(), ()),
    ],
)
def test_missing_static_inputs_and_skips(metric: Mapping[str, Any], missing: tuple[str, ...]) -> None:
    made = metric_of(metric)
    own, inherited = MetricSpec(made, "m", MARK, False), MetricSpec(made, "m", MARK, True)
    assert missing_static_inputs(own, BARE) == missing
    assert missing_static_inputs(own, FULL) == ()
    # Listed on the case, a missing input is an error of the evaluation, not a skip.
    assert skip_reason(own, BARE) is None
    assert skip_reason(inherited, FULL) is None
    expected = f"does not apply: the turn has no {missing[0]}" if missing else None
    assert skip_reason(inherited, BARE) == expected


@pytest.mark.needs
@pytest.mark.parametrize("kind", ["tool_correctness", "deepeval_tool_correctness"])
def test_a_trajectory_serves_tool_correctness_too(kind: str) -> None:
    spec = MetricSpec(metric_of(config(type=kind)), "m", MARK, True)
    turn = Turn(0, "a", MARK, expected_trajectory=(ExpectedTool("f"),))
    assert missing_static_inputs(spec, turn) == ()
    assert skip_reason(spec, turn) is None


def test_a_disabled_metric_is_skipped_wherever_it_stands() -> None:
    for inherited in (True, False):
        spec = MetricSpec(metric_of(config(metric="rouge", enabled=False)), "m", MARK, inherited)
        assert skip_reason(spec, FULL) == "disabled in the suite"


@walk(
    ("turn", "metric", "expected"),
    [
        (BARE, config(metric="equality"), False),
        (BARE, code(), False),
        (replace(BARE, expected_tools=ToolExpectation(())), config(metric="equality"), True),
        (FULL, config(type="tool_correctness"), True),
        (replace(FULL, expected_tools=None), config(type="trajectory"), True),
        (replace(FULL, expected_tools=None), config(type="trajectory", enabled=False), False),
        (BARE, config(type="trajectory"), False),
    ],
)
def test_what_needs_the_tool_calls(turn: Turn, metric: Mapping[str, Any], expected: bool) -> None:
    spec = MetricSpec(metric_of(metric), "m", MARK, True)
    assert reads_tool_calls(replace(turn, metrics=(spec,))) is expected


def suite_text(metrics: str, cases: str) -> str:
    return f"{HEAD}evaluations: {{metrics: [{metrics}]}}\ntest_cases: [{cases}]\n"


ROUGE = "{type: standard, metric: rouge}"
NOTHING = (
    "agent.yaml:4:14: evaluations: nothing in this suite can fail: give a metric a threshold, add a metric that "
    "asserts (such as equality), add expected_tools to a case, or give gates.metrics a bound such as min_mean"
)


@pytest.mark.needs
@walk(
    ("metrics", "cases", "expected"),
    [
        (ROUGE, "{input: a, ground_truth: b}", [NOTHING]),
        ("{type: standard, metric: equality, enabled: false}", "{input: a, ground_truth: b}", [NOTHING]),
        (ROUGE, "{input: a, ground_truth: b, expected_tools: []}", []),
        (ROUGE, "{input: a, ground_truth: b, evaluations: [{metric: rouge, threshold: 0.1}]}", []),
        (
            "{type: standard, metric: equality}",
            "{input: a}, {input: b, expected_tools: [f]}",
            [
                (
                    "agent.yaml:4:25: evaluations.metrics[0]: applies to no turn, because no case gives "
                    "ground_truth; give it, or remove the metric"
                )
            ],
        ),
        ("{type: standard, metric: equality}", "{input: a}, {input: b, ground_truth: c}", []),
        ("{type: standard, metric: equality, enabled: false}", "{input: a, expected_tools: []}", []),
        (
            "{type: trajectory}, {type: tool_correctness}, {type: retrieval, metric: map_at_k, k: [1, 2]}",
            "{input: a, ground_truth: c}",
            [
                (
                    f"agent.yaml:4:{column}: evaluations.metrics[{index}]: applies to no turn, because no case gives "
                    f"{name}; give it, or remove the metric"
                )
                for index, column, name in [
                    (0, 25, "expected_trajectory"),
                    (1, 45, "expected_tools"),
                    (2, 71, "ground_truth_chunk_ids"),
                ]
            ],
        ),
        ("{type: rag, metric_type: faithfulness}", "{input: a}", []),
    ],
)
def test_suites_that_would_be_green_for_the_wrong_reason(
    tmp_path: Path, metrics: str, cases: str, expected: list[str]
) -> None:
    assert complaints(tmp_path, suite_text(metrics, cases)) == expected


def test_a_policy_metric_that_never_applies(tmp_path: Path) -> None:
    agent = f"{HEAD}test_cases: [{{input: a, expected_tools: [f]}}]\n"
    policy = "metrics:\n- {type: tool_correctness}\n- {type: standard, metric: numeric}\n"
    assert complaints(tmp_path, agent, {"holodeck-action.yaml": policy}) == [
        (
            "holodeck-action.yaml:3:3: metrics[1]: applies to no turn, because no case gives ground_truth; give it, "
            "or remove the metric"
        )
    ]


def test_a_suite_without_metrics_may_live_on_tool_assertions(tmp_path: Path) -> None:
    suite = load(tmp_path, f"{HEAD}test_cases: [{{input: a, expected_tools: [f]}}, {{input: b}}]\n")
    assert [case_asserts(case) for case in suite.cases] == [True, False]


def test_a_suite_metric_that_every_case_replaces_is_noted(tmp_path: Path) -> None:
    suite = load(tmp_path, suite_text(ROUGE, "{input: a, ground_truth: b, evaluations: [{metric: equality}]}"))
    assert suite.notices == ("evaluations.metrics[0]: no case uses this metric, because every case lists its own",)


@pytest.mark.needs
@pytest.mark.proves(
    "VectorstoreTool: database",
    "EvaluationConfig: optimizer",
    "StandardMetric: custom_prompt model",
    "Observability: metrics logs",
    "Exporters: prometheus azure_monitor",
    "ProjectConfig: vectorstores",
)
def test_notices(tmp_path: Path) -> None:
    agent = """\
name: a
model: {provider: ollama, name: m}
instructions: {inline: hi}
claude: {permission_mode: acceptAll, max_turns: 3, allowed_tools: [x], web_search: true, effort: low}
openai: {max_turns: 3, permissions: {}, disable_default_hooks: true, max_budget_usd: 1, fallback_model: m}
deployment: {registry: x, port: 80}
observability: {enabled: true, traces: {}, logs: {}, exporters: {otlp: {}, prometheus: {}, azure_monitor: {a: 1}}}
tools:
- {type: prompt, name: p, description: d, template: t, parameters: {a: 1}}
- {type: vectorstore, name: v, description: d, source: s, database: unknown}
- {type: vectorstore, name: w, description: d, source: s, database: known}
evaluations:
  optimizer: {loss: {rouge: 1}}
  metrics:
  - {type: standard, metric: rouge, threshold: 0.5, case_insensitive: true, model: {provider: openai, name: j}}
  - {type: standard, metric: equality, strip_whitespace: true, custom_prompt: p, accept_percent: true}
  - {type: standard, metric: groundedness, custom_prompt: p}
test_cases:
- {input: a, ground_truth: b}
- {input: a, ground_truth: c, evaluations: [{metric: similarity, use_stemmer: true, threshold: 0.1}]}
"""
    suite = load(tmp_path, agent, {"config.yaml": "vectorstores: {known: {provider: qdrant}}\n"})
    assert suite.notices == (
        "not used by this runner: claude.permission_mode, claude.web_search, deployment, "
        "observability.logs, observability.exporters.prometheus, observability.exporters.azure_monitor",
        "`openai` is not used: the model's provider is ollama, so `claude` applies instead",
        'tools[1]: the project config has no database "unknown"; the tool\'s index is kept in memory',
        "agent.yaml:15:5: case_insensitive has no effect on rouge",
        "agent.yaml:15:5: model has no effect on rouge",
        "agent.yaml:16:5: accept_percent has no effect on equality",
        "agent.yaml:16:5: custom_prompt has no effect on equality",
        "groundedness is deprecated: migrate to type rag with metric_type faithfulness",
        "similarity is deprecated: migrate to type geval with evaluation_params actual_output and expected_output",
        "agent.yaml:20:45: use_stemmer has no effect on similarity",
    )


def test_notices_from_before_come_first(tmp_path: Path) -> None:
    load_policy_of(tmp_path, f"{HEAD}test_cases: [{{input: a, expected_tools: []}}]\ndeployment: {{a: 1}}\n", "")
    suite = load_suite(tmp_path / "agent.yaml", environ={}, home=None, metrics=built_in(), notices=("earlier",))
    assert suite.notices == ("earlier", "not used by this runner: deployment")
