"""Which metrics a turn gets, under which names."""

from __future__ import annotations

from pathlib import Path

import pytest

from holodeck_action.metrics.standard import StandardMetric
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.values import ArgumentMatcher, ExpectedTool, Suite, ToolExpectation
from tests.suite.folders import EQUALITY, HEAD, complaints, load, load_policy_of
from tests.tables import walk


def labels(suite: Suite) -> list[list[list[str]]]:
    """Labels by case and turn."""
    return [[[spec.label for spec in turn.metrics] for turn in case.turns] for case in suite.cases]


def suite_of(folder: Path, metrics: str, cases: str, policy: str = "") -> Suite:
    agent = f"{HEAD}evaluations: {{metrics: [{metrics}]}}\ntest_cases:\n{cases}"
    return load_policy_of(folder, agent, policy)


@pytest.mark.proves("a metric of a case without type")
def test_the_nearest_list_wins_and_an_empty_one_falls_through(tmp_path: Path) -> None:
    suite = suite_of(
        tmp_path,
        "{type: standard, metric: bleu, threshold: 0.1}",
        "- {input: a, ground_truth: b}\n"
        "- {input: a, ground_truth: b, evaluations: []}\n"
        "- {input: a, ground_truth: b, evaluations: [{metric: rouge}]}\n"
        "- evaluations: [{metric: rouge}]\n"
        "  turns:\n"
        "  - {input: a, ground_truth: b}\n"
        "  - {input: a, ground_truth: b, evaluations: [{type: standard, metric: meteor}]}\n"
        "  - {input: a, ground_truth: b, evaluations: []}\n"
        "- turns: [{input: a, ground_truth: b}, {input: a, ground_truth: b, evaluations: [{metric: numeric}]}]\n",
    )
    assert labels(suite) == [
        [["bleu"]],
        [["bleu"]],
        [["rouge"]],
        [["rouge"], ["meteor"], ["rouge"]],
        [["bleu"], ["numeric"]],
    ]
    assert suite.cases[0].turns[0].metrics[0] == suite.cases[1].turns[0].metrics[0]
    assert suite.cases[0].turns[0].metrics is suite.cases[1].turns[0].metrics


def test_policy_metrics_join_the_suites_and_overlays_join_whatever_a_case_has(tmp_path: Path) -> None:
    suite = suite_of(
        tmp_path,
        "{type: standard, metric: bleu, threshold: 0.1}",
        "- {name: plain, input: a, ground_truth: b}\n"
        "- {name: own, input: a, ground_truth: b, evaluations: [{metric: rouge}]}\n"
        "- {name: talk, turns: [{input: a, ground_truth: b}, {input: c, ground_truth: d}]}\n",
        "metrics: [{type: length, max_words: 9}]\n"
        "cases:\n  own: {evaluations: [{metric: f1_score}]}\n  talk: {evaluations: [{metric: f1_score}]}\n",
    )
    assert labels(suite) == [
        [["bleu", "length"]],
        [["rouge", "f1_score"]],
        [["bleu", "length", "f1_score"], ["bleu", "length", "f1_score"]],
    ]
    plain, own, _ = suite.cases
    assert [spec.inherited for spec in plain.turns[0].metrics] == [True, True]
    assert [spec.inherited for spec in own.turns[0].metrics] == [False, False]
    assert [spec.mark for spec in plain.turns[0].metrics] == [
        SourceMark("agent.yaml", 4, 25),
        SourceMark("holodeck-action.yaml", 1, 11),
    ]


def test_metrics_of_the_conversation_stand_on_its_last_turn(tmp_path: Path) -> None:
    suite = suite_of(
        tmp_path,
        "{type: trajectory}, {type: retrieval, metric: recall_at_k, k: [1, 5, 1]}, {type: standard, metric: equality}, "
        "{type: tool_correctness}",
        "- name: talk\n  turns: [{input: a, ground_truth: b, expected_tools: [f]}, {input: c}]\n",
        "cases: {talk: {expected_trajectory: [{name: f}], retrieval: {ground_truth_chunk_ids: [x]}, "
        "evaluations: [{type: retrieval, metric: ndcg_at_k}]}}\n",
    )
    assert labels(suite) == [
        [
            ["equality", "tool_correctness"],
            ["trajectory", "recall_at_1", "recall_at_5", "equality", "tool_correctness", "ndcg_at_20"],
        ]
    ]
    first, last = suite.cases[0].turns
    assert (first.expected_trajectory, first.ground_truth_chunk_ids) == (None, None)
    assert last.expected_trajectory == (ExpectedTool("f", match="exact"),)
    assert last.ground_truth_chunk_ids == {"x": 1.0}
    assert [spec.k for spec in last.metrics] == [None, 1, 5, None, None, 20]


def test_a_conversations_own_metric_is_skippable_where_only_some_turns_have_its_input(tmp_path: Path) -> None:
    suite = suite_of(
        tmp_path,
        "{type: length, max_words: 9}",
        "- {evaluations: [{metric: equality}], turns: [{input: a, ground_truth: b}, {input: c}]}\n"
        "- {evaluations: [{metric: equality}], turns: [{input: a}, {input: c}]}\n"
        "- {evaluations: [{metric: equality}], input: a}\n"
        "- {input: a}\n",
    )
    inherited = [[[spec.inherited for spec in turn.metrics] for turn in case.turns] for case in suite.cases]
    assert inherited == [[[False], [True]], [[False], [False]], [[False]], [[True]]]


@pytest.mark.needs
@walk(
    ("metrics", "expected"),
    [
        ("{type: standard, metric: rouge}", ["rouge"]),
        ("{type: standard, metric: rouge, name: Overlap}", ["Overlap"]),
        ("{type: geval, name: Tone, criteria: c}", ["Tone"]),
        ("{type: rag, metric_type: faithfulness}", ["faithfulness"]),
        ("{type: code, grader: 'graders.a:check'}", ["check"]),
        ("{type: length, max_words: 3}", ["length"]),
        ("{type: retrieval, metric: hit_rate_at_k, k: 3}", ["hit_rate_at_3"]),
        ("{type: retrieval, metric: mrr_at_k, k: 3, name: First}", ["First"]),
        ("{type: retrieval, metric: mrr_at_k, k: [3, 5], name: First}", ["First (k=3)", "First (k=5)"]),
        # What is done with the score does not make it another metric.
        (
            "{type: standard, metric: rouge}, {type: standard, metric: rouge, threshold: 0.5, fail_on_error: true, "
            "timeout_ms: 5, retry_on_failure: 2, enabled: false}",
            ["rouge", "rouge"],
        ),
        (
            "{type: standard, metric: rouge}, {type: standard, metric: rouge, variant: rouge1}",
            ["rouge", "rouge (variant=rouge1)"],
        ),
        (
            "{type: standard, metric: rouge, variant: rouge1, use_stemmer: true}, "
            "{type: standard, metric: rouge, variant: rouge2, use_stemmer: true}",
            ["rouge (variant=rouge1)", "rouge (variant=rouge2)"],
        ),
        (
            "{type: standard, metric: numeric, absolute_tolerance: 0.5}, "
            "{type: standard, metric: numeric, response_path: 'a.b', accept_percent: yes}",
            ["numeric (absolute_tolerance=0.5)", "numeric (accept_percent=true, response_path=a.b)"],
        ),
        (
            "{type: code, grader: 'a:check'}, {type: code, grader: 'b:check'}",
            ["check (grader=a:check)", "check (grader=b:check)"],
        ),
        (
            "{type: rag, metric_type: faithfulness}, "
            "{type: rag, metric_type: faithfulness, model: {provider: openai, name: gpt-4o}}",
            ["faithfulness", "faithfulness (model=openai/gpt-4o)"],
        ),
        (
            "{type: code, grader: 'a:f', pass_values: [good]}, {type: code, grader: 'a:f', pass_values: [good, fair]}",
            ["f (pass_values=good)", "f (pass_values=good fair)"],
        ),
        # A name that another metric would have by itself.
        (
            "{type: geval, name: rouge, criteria: c}, {type: standard, metric: rouge}",
            ["rouge", "rouge (standard)"],
        ),
        (
            "{type: relevance}, {type: standard, metric: relevance}",
            ["relevance (relevance)", "relevance (metric=relevance)"],
        ),
        ("{type: relevance}", ["relevance"]),
    ],
)
def test_labels(tmp_path: Path, metrics: str, expected: list[str]) -> None:
    case = "- {name: c, input: a, ground_truth: b, expected_tools: []}\n"
    overlay = "cases: {c: {retrieval: {ground_truth_chunk_ids: [x]}}}"
    assert labels(suite_of(tmp_path, metrics, case, overlay)) == [[expected]]
    # The order of the entries does not change a label.
    entries = metrics.replace("}, {", "}|{").split("|")
    turned = labels(suite_of(tmp_path, ", ".join(reversed(entries)), case, overlay))[0][0]
    assert sorted(turned) == sorted(expected)


@pytest.mark.needs
def test_models_that_differ_only_in_a_hidden_setting_still_get_different_labels(tmp_path: Path) -> None:
    models = [f"{{provider: openai, name: m, api_key: {key}}}" for key in ("one", "two")]
    metrics = ", ".join(f"{{type: rag, metric_type: faithfulness, model: {model}}}" for model in models)
    [[found]] = labels(suite_of(tmp_path, metrics, "- {input: a, retrieval_context: [b]}\n"))
    assert len(set(found)) == 2
    assert all(label.startswith("faithfulness (model=") for label in found)
    assert "one" not in found[0]


def test_one_name_cannot_mean_two_metrics(tmp_path: Path) -> None:
    agent = (
        f"{HEAD}evaluations: {{metrics: [{{type: standard, metric: bleu, name: x, threshold: 0.1}}]}}\n"
        "test_cases:\n"
        "- {input: a, ground_truth: b, evaluations: [{metric: bleu, name: x}]}\n"
        "- {input: a, ground_truth: b, evaluations: [{metric: rouge, name: x}]}\n"
    )
    assert complaints(tmp_path, agent) == [
        'agent.yaml:7:45: name: "x" already names a metric with other settings (agent.yaml:6:45): give each its own '
        "name"
    ]


def test_settings_of_one_entry_do_not_leak_into_another(tmp_path: Path) -> None:
    suite = suite_of(
        tmp_path,
        "{type: standard, metric: numeric}",
        "- {input: a, ground_truth: 1}\n"
        "- {input: a, ground_truth: 1, evaluations: [{metric: numeric, absolute_tolerance: 5}]}\n"
        "- {input: a, ground_truth: 1, evaluations: [{metric: numeric, threshold: 0.5}]}\n",
    )
    configs = [case.turns[0].metrics[0].config for case in suite.cases]
    assert [getattr(config, "absolute_tolerance", None) for config in configs] == [1e-6, 5.0, 1e-6]
    standard = [config for config in configs if isinstance(config, StandardMetric)]
    assert [config.threshold for config in standard] == [None, None, 0.5]
    assert labels(suite) == [[["numeric"]], [["numeric (absolute_tolerance=5)"]], [["numeric"]]]


def test_equal_configurations_are_one_object(tmp_path: Path) -> None:
    entry = "{input: a, ground_truth: 1, evaluations: [{metric: numeric, accept_percent: true}]}"
    suite = suite_of(tmp_path, "{type: length, max_words: 3}", f"- {entry}\n- {entry}\n")
    first, second = (case.turns[0].metrics[0] for case in suite.cases)
    assert first.config is second.config
    assert first.mark != second.mark


def test_expected_tools(tmp_path: Path) -> None:
    case = """\
- input: a
  expected_tools:
  - search
  - {name: sum, args: {a: 1.5, b: {fuzzy: "60.94"}, c: {regex: "A-\\\\d+"}, d: {x: [1, null]}, e: {}}, count: 2}
  - {name: send, max_count: 3, match: exact}
- {input: a, expected_tools: []}
- {input: a, expected_tools: {tools: [x, {name: y}], order: strict}}
- {input: a}
"""
    suite = suite_of(tmp_path, "{type: length, max_words: 3}", case)
    found = [case.turns[0].expected_tools for case in suite.cases]
    assert found[0] == ToolExpectation(
        (
            ExpectedTool("search"),
            ExpectedTool(
                "sum",
                {
                    "a": ArgumentMatcher("literal", 1.5),
                    "b": ArgumentMatcher("fuzzy", "60.94"),
                    "c": ArgumentMatcher("regex", "A-\\d+"),
                    "d": ArgumentMatcher("literal", {"x": [1, None]}),
                    "e": ArgumentMatcher("literal", {}),
                },
                count=2,
            ),
            ExpectedTool("send", max_count=3, match="exact"),
        )
    )
    assert found[1] == ToolExpectation(())
    assert found[2] == ToolExpectation((ExpectedTool("x"), ExpectedTool("y")), "strict")
    assert found[3] is None


def test_turns(tmp_path: Path) -> None:
    absolute = tmp_path / "abs.txt"
    absolute.write_text("text")
    case = f"""\
- name: talk
  turns:
  - {{input: a, ground_truth: 60.940, turn_config: {{program: "x", n: [1, {{y: 2.0}}]}}}}
  - input: b
    retrieval_context: []
    files: [{{url: "https://x/y.pdf", type: pdf, pages: [1, 2]}}, {{path: {absolute}, type: text}}]
"""
    suite = suite_of(tmp_path, "{type: length, max_words: 3}", case)
    [talk] = suite.cases
    first, second = talk.turns
    assert (talk.multi_turn, talk.name, talk.mark) == (True, "talk", SourceMark("agent.yaml", 6, 3))
    assert (first.index, first.mark) == (0, SourceMark("agent.yaml", 8, 5))
    assert (second.index, second.mark) == (1, SourceMark("agent.yaml", 9, 5))
    assert first.ground_truth == "60.940"
    assert first.turn_config == {"program": "x", "n": [1, {"y": 2.0}]}
    assert type(first.turn_config["n"][1]) is dict
    assert (first.retrieval_context, second.retrieval_context) == (None, ())
    assert second.turn_config == {}
    assert second.files[0].url == "https://x/y.pdf"
    assert second.files[0].pages == [1, 2]
    assert second.files[1].path == str(absolute)


def test_graders_with_their_first_place(tmp_path: Path) -> None:
    suite = suite_of(
        tmp_path,
        "{type: code, grader: 'g.a:f'}",
        "- {input: a, evaluations: [{type: code, grader: 'g.b:f'}, {type: code, grader: 'g.a:f'}]}\n"
        "- {input: a}\n"
        "- {input: a, evaluations: [{type: code, grader: 'g.c:f', enabled: false}, {type: length, max_words: 1}]}\n",
    )
    assert suite.graders == {"g.a:f": SourceMark("agent.yaml", 4, 25), "g.b:f": SourceMark("agent.yaml", 6, 28)}


def test_an_aliased_list_of_metrics_serves_many_cases(tmp_path: Path) -> None:
    agent = (
        f"{HEAD}{EQUALITY}test_cases:\n"
        "- {input: a, ground_truth: b, evaluations: &own [{metric: rouge, threshold: 0.5}]}\n"
        "- {input: c, ground_truth: d, evaluations: *own}\n"
        "- {<<: {ground_truth: z}, input: e}\n"
    )
    suite = load(tmp_path, agent)
    assert labels(suite) == [[["rouge"]], [["rouge"]], [["equality"]]]
    assert suite.cases[0].turns[0].metrics is suite.cases[1].turns[0].metrics
    assert suite.cases[2].turns[0].ground_truth == "z"
