"""Every setting of every metric changes what a case is judged to be: each pair of cases differs in one setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.commands.project import Project
from tests.fields.pairs import ERROR, FAILED, PASSED, SHOWN, Pair, call, calls, chunks, run_pairs

pytestmark = pytest.mark.needs("deepeval")

OK = {"type": "length", "max_characters": 1000}


def pair(
    entry: Mapping[str, Any],
    setting: Mapping[str, Any],
    outcomes: tuple[str, str],
    response: str = "Paris",
    truth: str | None = "Paris",
    **more: Any,
) -> Pair:
    """A metric without and with a setting; `beside` holds further metrics of both cases, `case` further fields."""
    case = {**({} if truth is None else {"ground_truth": truth}), **more.pop("case", {})}
    beside = more.pop("beside", [])
    without, given = ({**case, "evaluations": [*beside, one]} for one in (entry, {**entry, **setting}))
    return Pair(without, given, outcomes, response, **more)


def standard(metric: str, setting: Mapping[str, Any], outcomes: tuple[str, str], *texts: str, **base: Any) -> Pair:
    """A standard metric; `texts` are the response and the ground truth."""
    return pair({"metric": metric, **base}, setting, outcomes, *texts)


CAT = "the cat sat on the mat"
STANDARD = {
    "StandardMetric.metric=numeric": standard("equality", {"metric": "numeric"}, (FAILED, PASSED), "42.0", "42"),
    **{
        f"StandardMetric.metric={metric}": standard(
            "equality", {"metric": metric}, (FAILED, PASSED), f"{CAT} today", CAT, threshold=0.5
        )
        for metric in ("f1_score", "bleu", "rouge", "meteor")
    },
    "StandardMetric.threshold": standard("rouge", {"threshold": 0.9}, (SHOWN, FAILED), "a b", "a c"),
    "StandardMetric.scale": standard("rouge", {"scale": 2}, (FAILED, PASSED), "a b", "a c", threshold=0.9),
    "StandardMetric.case_insensitive": standard("equality", {"case_insensitive": True}, (FAILED, PASSED), "PARIS"),
    "StandardMetric.strip_whitespace": standard("equality", {"strip_whitespace": True}, (FAILED, PASSED), " Paris "),
    "StandardMetric.strip_punctuation": standard("equality", {"strip_punctuation": True}, (FAILED, PASSED), "Paris!"),
    "StandardMetric.absolute_tolerance": standard("numeric", {"absolute_tolerance": 1}, (FAILED, PASSED), "41", "42"),
    "StandardMetric.relative_tolerance": standard("numeric", {"relative_tolerance": 0.1}, (FAILED, PASSED), "41", "42"),
    "StandardMetric.accept_percent": standard("numeric", {"accept_percent": True}, (FAILED, PASSED), "14 %", "0.14"),
    "StandardMetric.accept_thousands_separators": standard(
        "numeric", {"accept_thousands_separators": True}, (FAILED, PASSED), "1,000", "1000"
    ),
    "StandardMetric.response_path": standard(
        "equality", {"response_path": "a.b[1]"}, (FAILED, PASSED), '{"a": {"b": [1, 2]}}', "2"
    ),
    "StandardMetric.variant=rouge1": standard(
        "rouge", {"variant": "rouge1"}, (FAILED, PASSED), "b a", "a b", threshold=0.9
    ),
    "StandardMetric.variant=rouge2": standard(
        "rouge", {"variant": "rouge2"}, (PASSED, FAILED), "a c b", "a b c", threshold=0.5
    ),
    "StandardMetric.use_stemmer": standard(
        "rouge", {"use_stemmer": True}, (FAILED, PASSED), "running", "runs", threshold=0.9
    ),
}


def code(grader: str, setting: Mapping[str, Any], outcomes: tuple[str, str], **base: Any) -> Pair:
    """A code grader."""
    return pair({"type": "code", "grader": f"graders:{grader}", **base}, setting, outcomes)


TEN = {"min": 0, "max": 10}
CODE = {
    "CodeMetric.grader": code("wrong", {"grader": "graders:right"}, (FAILED, PASSED)),
    "CodeMetric.threshold": code("six_tenths", {"threshold": 0.7}, (PASSED, FAILED)),
    "CodeMetric.scale": code("seven", {"scale": TEN}, (ERROR, PASSED)),
    "Scale.min": code("seven", {"scale": {"min": 6, "max": 10}}, (PASSED, FAILED), scale=TEN),
    "Scale.max": code("seven", {"scale": {"min": 0, "max": 20}}, (PASSED, FAILED), scale=TEN),
    "CodeMetric.pass_values": code("good", {"pass_values": ["good", "fair"]}, (ERROR, PASSED)),
}


def tools(setting: Mapping[str, Any], outcomes: tuple[str, str], *made: Mapping[str, Any], **base: Any) -> Pair:
    """Tool correctness by a trajectory, since `expected_tools` would assert by itself."""
    entry = {"type": "tool_correctness", **base}
    overlay = {"expected_trajectory": [{"name": "search", "args": {"q": 1}}]}
    return pair(entry, setting, outcomes, reply=calls(*made), overlays=(overlay, overlay))


TOOLS = {
    "ToolCorrectnessMetric.threshold": tools({"threshold": 0.9}, (SHOWN, FAILED), call("search", q=2)),
    "ToolCorrectnessMetric.args=ignore": tools(
        {"args": "ignore"}, (FAILED, PASSED), call("search", q=2), threshold=0.9
    ),
    "ToolCorrectnessMetric.args=exact": tools(
        {"args": "exact"}, (PASSED, FAILED), call("search", q=1, n=5), threshold=0.9
    ),
    "ToolCorrectnessMetric.args=subset": tools(
        {"args": "subset"}, (FAILED, PASSED), call("search", q=1, n=5), threshold=0.9, args="exact"
    ),
    "ToolCorrectnessMetric.score=precision": tools(
        {"score": "precision"}, (PASSED, FAILED), call("search", q=1), call("other"), threshold=0.6
    ),
    "ToolCorrectnessMetric.score=recall": tools(
        {"score": "recall"}, (FAILED, PASSED), call("search", q=1), call("other"), threshold=0.9
    ),
}


def deepeval(setting: Mapping[str, Any], outcomes: tuple[str, str], *made: Mapping[str, Any], **base: Any) -> Pair:
    """DeepEval's tool correctness of search(q=1), mail()."""
    entry = {"type": "deepeval_tool_correctness", **base}
    overlay = {"expected_trajectory": [{"name": "search", "args": {"q": 1}}, {"name": "mail", "args": {}}]}
    return pair(entry, setting, outcomes, reply=calls(*made), overlays=(overlay, overlay))


SEARCH, MAIL = call("search", q=1), call("mail")
DEEPEVAL = {
    "ToolCallComparison.threshold": deepeval({"threshold": 0.9}, (PASSED, FAILED), SEARCH),
    "ToolCallComparison.evaluation_params": deepeval(
        {"evaluation_params": ["input_parameters"]}, (PASSED, FAILED), call("search", q=2), MAIL, threshold=0.9
    ),
    "ToolCallComparison.should_exact_match": deepeval(
        {"should_exact_match": True}, (PASSED, FAILED), SEARCH, MAIL, call("other")
    ),
    "ToolCallComparison.should_consider_ordering": deepeval(
        {"should_consider_ordering": True}, (PASSED, FAILED), MAIL, SEARCH, threshold=0.9
    ),
    "ToolCallComparison.strict_mode": deepeval({"strict_mode": True}, (PASSED, FAILED), SEARCH),
}


def trajectory(setting: Mapping[str, Any], outcomes: tuple[str, str], made: str, **base: Any) -> Pair:
    """The trajectory a(x=1), b against calls of one letter each; `A` is a with another value, `+` with one more."""
    special = {"a": call("a", x=1), "A": call("a", x=2), "+": call("a", x=1, y=2)}
    steps = [special.get(letter) or call(letter) for letter in made]
    overlay = {"expected_trajectory": [{"name": "a", "args": {"x": 1}}, {"name": "b"}]}
    entry = {"type": "trajectory", **base}
    return pair(entry, setting, outcomes, reply=calls(*steps), overlays=(overlay, overlay))


TRAJECTORY = {
    "TrajectoryMetric.mode=unordered": trajectory({"mode": "unordered"}, (FAILED, PASSED), "ba"),
    "TrajectoryMetric.mode=subset": trajectory({"mode": "subset"}, (FAILED, PASSED), "a"),
    "TrajectoryMetric.mode=superset": trajectory({"mode": "superset"}, (FAILED, PASSED), "abc"),
    "TrajectoryMetric.mode=lcs_f1": trajectory({"mode": "lcs_f1"}, (FAILED, SHOWN), "acb"),
    "TrajectoryMetric.threshold": trajectory({"threshold": 0.9}, (SHOWN, FAILED), "acb", mode="lcs_f1"),
    "TrajectoryMetric.args=ignore": trajectory({"args": "ignore"}, (FAILED, PASSED), "Ab"),
    "TrajectoryMetric.args=exact": trajectory({"args": "exact"}, (PASSED, FAILED), "+b"),
    "TrajectoryMetric.args=subset": trajectory({"args": "subset"}, (FAILED, PASSED), "+b", args="exact"),
}


def retrieval(setting: Mapping[str, Any], outcomes: tuple[str, str], *found: str, **base: Any) -> Pair:
    """Retrieval of the chunks one and two."""
    overlay = {"retrieval": {"ground_truth_chunk_ids": ["one", "two"]}}
    entry = {"type": "retrieval", "metric": "recall_at_k", "threshold": 0.9, **base}
    written = {key: value for key, value in entry.items() if value is not None}
    return pair(written, setting, outcomes, reply=chunks(*found), overlays=(overlay, overlay))


RETRIEVAL = {
    **{
        f"RetrievalMetric.metric={metric}": retrieval({"metric": metric}, (PASSED, FAILED), "x", "one", "two")
        for metric in ("precision_at_k", "mrr_at_k", "map_at_k", "ndcg_at_k")
    },
    "RetrievalMetric.metric=hit_rate_at_k": retrieval({"metric": "hit_rate_at_k"}, (FAILED, PASSED), "x", "one"),
    "RetrievalMetric.k=number": retrieval({"k": 1}, (PASSED, FAILED), "one", "two"),
    "RetrievalMetric.k=list": retrieval({"k": [1, 2]}, (PASSED, FAILED), "one", "two"),
    "RetrievalMetric.threshold": retrieval({"threshold": 0.9}, (SHOWN, FAILED), "one", threshold=None),
}

LENGTH = {
    "LengthMetric.optimal_words": pair(
        {"type": "length", "max_words": 9, "threshold": 0.9}, {"optimal_words": 8}, (PASSED, FAILED), "one two three"
    ),
    "LengthMetric.threshold": pair(
        {"type": "length", "max_words": 3}, {"threshold": 0.5}, (FAILED, PASSED), "one two three four"
    ),
    **{
        f"LengthMetric.{bound}": pair(OK, {bound: limit}, (PASSED, FAILED), "One two. Three four.")
        for bound, limit in {
            "min_words": 5,
            "max_words": 3,
            "min_characters": 21,
            "max_characters": 19,
            "min_sentences": 3,
            "max_sentences": 1,
        }.items()
    },
}

MISSING: dict[str, dict[str, Any]] = {
    "standard": {"type": "standard", "metric": "bleu", "threshold": 0.1},
    "code": {"type": "code", "grader": "graders:breaks"},
    "tool_correctness": {"type": "tool_correctness", "threshold": 0.1},
    "deepeval_tool_correctness": {"type": "deepeval_tool_correctness"},
    "trajectory": {"type": "trajectory"},
    "retrieval": {"type": "retrieval", "metric": "map_at_k", "threshold": 0.1},
}
"""Metrics that cannot be evaluated on a case that gives nothing."""

EVERY = {
    **{
        # What lacks a fact leaves its case in error; a grader that breaks is soft for its case.
        f"Metric.fail_on_error={kind}": pair(
            entry, {"fail_on_error": True}, (PASSED if kind == "code" else ERROR, FAILED), truth=None, beside=[OK]
        )
        for kind, entry in MISSING.items()
    },
    "Metric.enabled": pair({"metric": "equality"}, {"enabled": False}, (FAILED, PASSED), "Lyon", beside=[OK]),
    "Metric.timeout_ms": code("sleeps", {"timeout_ms": 300}, (PASSED, ERROR)),
    "Metric.retry_on_failure": code("second_time", {"retry_on_failure": 1}, (ERROR, PASSED)),
}

PAIRS = {**STANDARD, **CODE, **TOOLS, **DEEPEVAL, **TRAJECTORY, **RETRIEVAL, **LENGTH, **EVERY}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    return run_pairs(tmp_path_factory.mktemp("metrics"), PAIRS, [OK])


@pytest.mark.proves(*PAIRS)
@pytest.mark.parametrize("key", PAIRS)
def test_a_setting_changes_the_verdict(judged: dict[str, tuple[str, str]], key: str) -> None:
    assert judged[key] == PAIRS[key].outcomes


JUDGED: dict[str, dict[str, Any]] = {
    "geval": {"type": "geval", "name": "Tone", "criteria": "Is it polite?"},
    "rag": {"type": "rag", "metric_type": "faithfulness"},
    "azure": {"type": "standard", "metric": "relevance", "threshold": 0.5},
}


@pytest.mark.proves("Metric: enabled name")
def test_names_and_disabled_metrics_of_every_type(project: Project) -> None:
    kinds = {**JUDGED, **MISSING, "length": OK}
    metrics = [{**entry, "name": f"my {kind}", "enabled": False} for kind, entry in kinds.items()]
    project.suite([{"name": "one", "input": "?", "ground_truth": "x", "expected_tools": []}], metrics)
    project.policy(ground_truth="unused")
    project.write("graders.py", "def breaks(ctx):\n    return False\n")
    project.answers([{"case": "one", "response": "y", "tool_invocations": []}])
    finished, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert finished.code == 0
    evaluations = record.cases[0].trials[0].turns[0].evaluations
    assert [found.evaluator_name for found in evaluations] == [f"my {kind}" for kind in kinds]
    assert {(found.status, found.explanation) for found in evaluations} == {("skipped", "disabled in the suite")}


@pytest.mark.proves("Metric: enabled")
@pytest.mark.parametrize("kind", JUDGED)
def test_a_metric_that_needs_a_judge_is_refused_unless_disabled(project: Project, kind: str) -> None:
    for enabled, code in ((True, 2), (False, 0)):
        project.suite([{"name": "one", "input": "?", "expected_tools": []}], [OK, {**JUDGED[kind], "enabled": enabled}])
        project.answers([{"case": "one", "response": "y", "tool_invocations": []}])
        finished = project.run("run", "--target", "recorded:answers.jsonl")
        assert finished.code == code
        assert ("or set enabled: false to leave it out" in finished.stderr) is enabled
