"""Scoring a turn: what is completed, skipped, failed or pending, and what the record says about it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holodeck_action.decide.case_verdicts import judge_evaluation
from holodeck_action.record.evaluation import ErrorInfo, Evaluation
from holodeck_action.record.facts import Nothing, list_fact
from holodeck_action.record.record import RetrievedChunk, ToolAssertion, ToolInvocation
from holodeck_action.scoring.scoring import Answer, TurnScorer
from holodeck_action.suite.values import ExpectedTool, MetricSpec, ToolExpectation
from holodeck_action.workers.pool import WorkerPool
from tests.tables import walk
from tests.workers.support import CODE

from .turns import MARK, NOW, answer, ids, spec, turn


def scorer_for(pool: WorkerPool) -> TurnScorer:
    return TurnScorer(pool=pool, clock=lambda: NOW, new_id=ids())


def score_all(folder: Path, *answers: Answer) -> list[tuple[Evaluation, ...]]:
    async def run() -> list[tuple[Evaluation, ...]]:
        async with WorkerPool(folder, environ=dict(os.environ), cwd=folder, size=2, code=CODE, redact=str) as pool:
            scorer = scorer_for(pool)
            return list(await asyncio.gather(*(scorer.score(item) for item in answers)))

    return asyncio.run(run())


def score(folder: Path, metrics: Sequence[MetricSpec], response: str = "", **fields: Any) -> tuple[Evaluation, ...]:
    """Score a response; fields of the turn and of the answer may be mixed."""
    of_answer = {"calls", "conversation_calls", "chunks", "texts", "multi_turn"}
    asked = turn(*metrics, **{name: value for name, value in fields.items() if name not in of_answer})
    given = {name: value for name, value in fields.items() if name in of_answer}
    return score_all(folder, answer(asked, response, **given))[0]


def test_every_metric_gives_one_evaluation_in_order(tmp_path: Path) -> None:
    names = ["equality", "bleu", "numeric", "rouge", "meteor", "f1_score"]
    found = score(tmp_path, [spec(name) for name in names], "60.94", ground_truth="60.94")
    assert [item.evaluator_name for item in found] == names
    assert {item.status for item in found} == {"completed"}
    assert [item.score for item in found if item.evaluator_name != "meteor"] == [1.0] * 5
    assert {item.target_event_id for item in found} == {"evt_00000000-0000-4000-8000-000000000000"}
    assert len({item.evaluation_id for item in found}) == 6
    assert {item.evaluator_name: str(item.evaluator_version).split("|")[0] for item in found} == {
        **dict.fromkeys(("equality", "numeric", "f1_score"), "1.0.0"),
        "bleu": "sacrebleu 2.6.0 nrefs:1",
        "rouge": "rouge-score 0.1.2 nrefs:1",
        "meteor": "nltk 3.10.4 nrefs:1",
    }
    for item in found:
        assert item.evaluation_id.startswith("eval_00000000-0000-4000-8000-")
        assert item.timestamp == "2026-01-02T03:04:05+00:00"
        assert item.explanation
        assert item.duration_ms is not None
        assert item.duration_ms >= 0
        assert (item.error, item.criteria.source) == (None, MARK)


def test_a_comparison_has_its_own_verdict_and_a_text_metric_has_none(tmp_path: Path) -> None:
    equality, bleu, strict = score(
        tmp_path, [spec("equality"), spec("bleu"), spec("bleu", threshold=0.9)], "a", ground_truth="b"
    )
    assert equality.metadata == {"passed": False}
    assert judge_evaluation(equality).outcome == "failed"
    assert bleu.metadata == {}
    assert judge_evaluation(bleu).outcome == "informational"
    # Judged from the record, so that the threshold can change without another run.
    assert "passed" not in strict.metadata
    assert judge_evaluation(strict).outcome == "failed"


def test_all_rouge_scores_are_recorded(tmp_path: Path) -> None:
    texts = {"response": "The cat sat on the mat", "ground_truth": "The cat is on the mat"}
    one, longest = score(tmp_path, [spec("rouge", variant="rouge2"), spec("rouge", threshold=0.5)], **texts)
    assert one.score == one.metadata["rouge2"] == 0.6
    assert longest.score == longest.metadata["rougeL"] == 5 / 6
    assert judge_evaluation(longest).outcome == "passed"


def test_entries_of_one_kind_keep_their_own_settings(tmp_path: Path) -> None:
    lax, strict = spec("numeric", absolute_tolerance=1.0), spec("numeric")
    found = score(tmp_path, [lax, strict, lax], "10.5", ground_truth="10")
    assert [item.score for item in found] == [1.0, 0.0, 1.0]
    other = score_all(
        tmp_path,
        answer(turn(lax, ground_truth="10"), "10.5"),
        answer(turn(strict, ground_truth="10"), "10.5"),
    )
    assert [items[0].score for items in other] == [1.0, 0.0]


def test_a_threshold_on_a_scale_is_put_on_the_scores_scale(tmp_path: Path) -> None:
    (found,) = score(tmp_path, [spec("f1_score", threshold=2, scale=5)], "green tea", ground_truth="green coffee")
    assert (found.score, found.criteria.threshold, found.criteria.settings) == (0.5, 0.4, {"scale": 5})
    assert judge_evaluation(found).outcome == "passed"


def test_an_empty_answer_is_scored(tmp_path: Path) -> None:
    found = score(tmp_path, [spec("equality"), spec("numeric"), spec("rouge", threshold=0.1)], "", ground_truth="Paris")
    assert [(item.status, item.score) for item in found] == [("completed", 0.0)] * 3
    assert {judge_evaluation(item).outcome for item in found} == {"failed"}


def test_identical_text_has_rouge_1(tmp_path: Path) -> None:
    (found,) = score(tmp_path, [spec("rouge", threshold=1.0)], "one two three", ground_truth="one two three")
    assert (found.score, judge_evaluation(found).outcome) == (1.0, "passed")


@pytest.mark.needs
def test_a_disabled_metric_is_shown_as_skipped(tmp_path: Path) -> None:
    disabled = [
        spec("equality", enabled=False),
        spec(type="geval", name="Tone", criteria="polite", enabled=False),
        spec(type="code", grader="nowhere:grade", enabled=False),
    ]
    for item in score(tmp_path, disabled, "a", ground_truth="b"):
        assert (item.status, item.score, item.explanation) == ("skipped", None, "disabled in the suite")
        assert judge_evaluation(item).outcome == "skipped"


def test_a_missing_input_is_a_skip_for_an_inherited_metric_and_an_error_for_a_listed_one(tmp_path: Path) -> None:
    inherited, listed = score(tmp_path, [spec("bleu", inherited=True), spec("bleu")], "a")
    assert (inherited.status, inherited.explanation) == ("skipped", "does not apply: the turn has no ground_truth")
    assert (listed.status, listed.score) == ("failed", None)
    assert listed.error == ErrorInfo(
        "EvaluationError",
        "it needs ground_truth, which the case does not give",
        "missing_input",
        {"parameter": "ground_truth"},
    )
    assert listed.explanation == listed.error.message
    (in_conversation,) = score(tmp_path, [spec("bleu")], "a", multi_turn=True)
    assert in_conversation.explanation == "it needs ground_truth, which the turn does not give"


def test_silence_about_chunks_is_an_error_and_no_chunks_are_a_score(tmp_path: Path) -> None:
    recall = spec(type="retrieval", metric="recall_at_k", k=2)
    recall = replace(recall, k=2)
    wanted = {"ground_truth_chunk_ids": {"a": 1.0, "b": 1.0}}
    (silent,) = score(tmp_path, [recall], "x", **wanted)
    assert silent.error is not None
    assert (silent.error.code, silent.error.message) == (
        "missing_input",
        "it needs retrieved_chunks, which the agent did not report",
    )
    (nothing,) = score(tmp_path, [recall], "x", **wanted, chunks=Nothing())
    assert (nothing.status, nothing.score) == ("completed", 0.0)
    (half,) = score(tmp_path, [recall], "x", **wanted, chunks=list_fact((RetrievedChunk("b"), RetrievedChunk("c"))))
    assert (half.score, half.criteria.metric, half.criteria.settings) == (0.5, "recall_at_k", {"k": 2})


def test_response_path_selects_what_is_compared(tmp_path: Path) -> None:
    total = spec("numeric", response_path="result.total")
    response = '{"result": {"total": 60.94, "currency": "USD"}}'
    (found,) = score(tmp_path, [total], response, ground_truth="60.94")
    assert (found.score, found.explanation) == (1.0, "60.94 equals 60.94")
    assert found.criteria.settings == {"response_path": "result.total"}


@walk("metric", ["numeric", "equality", "bleu"])
@walk("threshold", [None, 0.0, 0.5])
def test_an_answer_without_the_path_fails_by_its_own_fault(
    tmp_path: Path, metric: str, threshold: float | None
) -> None:
    more: dict[str, Any] = {} if threshold is None else {"threshold": threshold}
    entry = spec(metric, response_path="a.b", **more)
    for response in ("no JSON", '{"a": {"c": 1}}', '{"a": {"b": []}}'):
        (found,) = score(tmp_path, [entry], response, ground_truth="1")
        assert (found.status, found.score, found.error) == ("completed", 0.0, None)
        assert found.explanation is not None
        assert found.explanation.startswith("response_path a.b: ")
        outcome = judge_evaluation(found).outcome
        assert outcome == ("informational" if metric == "bleu" and threshold is None else "failed")


def test_the_whole_conversation_counts_for_an_expected_trajectory(tmp_path: Path) -> None:
    first, second = ToolInvocation("search"), ToolInvocation("refund")
    made: dict[str, Any] = {"calls": list_fact((second,)), "conversation_calls": list_fact((first, second))}
    trajectory = (ExpectedTool("search"), ExpectedTool("refund"))
    order, correct = score(
        tmp_path,
        [spec(type="trajectory"), spec(type="tool_correctness", threshold=1.0)],
        **made,
        expected_trajectory=trajectory,
    )
    assert (order.score, correct.score) == (1.0, 1.0)
    (of_turn,) = score(
        tmp_path,
        [spec(type="tool_correctness", score="precision")],
        **made,
        expected_tools=ToolExpectation((ExpectedTool("refund"),)),
    )
    assert of_turn.score == 1.0


def test_tool_assertions(tmp_path: Path) -> None:
    expecting = turn(expected_tools=ToolExpectation((ExpectedTool("search"),)))

    async def run() -> tuple[tuple[ToolAssertion, ...], ...]:
        async with WorkerPool(tmp_path, environ={}, cwd=tmp_path, size=1, code=CODE, redact=str) as pool:
            scorer = scorer_for(pool)
            return (
                await scorer.check_tools(expecting, list_fact((ToolInvocation("search"),))),
                await scorer.check_tools(expecting, list_fact(())),
                await scorer.check_tools(turn(), list_fact((ToolInvocation("search"),))),
                await scorer.check_tools(expecting, list_fact((None,))),  # type: ignore[arg-type]
            )

    met, missed, none, broken = asyncio.run(run())
    assert [item.matched for item in met] == [True]
    assert [item.matched for item in missed] == [False]
    assert none == ()
    # Trouble while checking is a failed assertion, never the end of the run.
    assert [item.matched for item in broken] == [False]
    assert (broken[0].reason or "").startswith("tool calls could not be checked: ")


def test_length(tmp_path: Path) -> None:
    fits, lax = score(
        tmp_path, [spec(type="length", max_words=2), spec(type="length", max_words=2, threshold=0.5)], "one two three"
    )
    assert fits.score == lax.score == 2 / 3
    assert fits.metadata["length_appropriateness"] == "too_long"
    assert [judge_evaluation(item).outcome for item in (fits, lax)] == ["failed", "passed"]


GRADERS = """
import asyncio, time
from holodeck.lib.test_runner.code_grader import GraderContext, GraderResult

def sees(ctx: GraderContext) -> GraderResult:
    seen = {
        "input": ctx.turn_input, "answer": ctx.agent_response, "truth": ctx.ground_truth, "turn": ctx.turn_index,
        "case": ctx.test_case_name, "config": ctx.turn_config, "context": list(ctx.retrieval_context),
        "tools": [call.name for call in ctx.tool_invocations],
    }
    return GraderResult(score=0.75, reason="looked", details=seen)

def raises(ctx):
    raise LookupError("no such thing")

def nan(ctx):
    return float("nan")

def sleeps(ctx):
    time.sleep(600)
"""


def test_code_graders_see_the_turn_and_harm_nobody(tmp_path: Path) -> None:
    (tmp_path / "graders.py").write_text(GRADERS, encoding="utf-8")

    def code(name: str, **settings: Any) -> MetricSpec:
        return spec(type="code", grader=f"graders:{name}", name=name, **settings)

    asked = turn(
        code("sees", threshold=0.5),
        code("raises", fail_on_error=True),
        spec("equality"),
        code("nan"),
        code("sleeps", timeout_ms=100),
        ground_truth="yes",
        turn_config={"depth": 2},
    )
    given = answer(
        asked,
        "yes",
        texts=list_fact(("a chunk",)),
        calls=list_fact((ToolInvocation("now"),)),
        conversation_calls=list_fact((ToolInvocation("before"), ToolInvocation("now"))),
    )
    sees, raises, equality, nan, sleeps = score_all(tmp_path, given)[0]
    assert (sees.status, sees.score, sees.explanation) == ("completed", 0.75, "looked")
    assert sees.metadata["details"] == {
        "input": "What is it?",
        "answer": "yes",
        "truth": "yes",
        "turn": 0,
        "case": "a case",
        "config": {"depth": 2},
        "context": ["a chunk"],
        "tools": ["now"],
    }
    assert (sees.criteria.kind, sees.criteria.metric, sees.criteria.threshold) == ("code", "graders:sees", 0.5)
    assert (raises.status, raises.criteria.fail_on_error) == ("failed", True)
    assert raises.error is not None
    assert "no such thing" in raises.error.message
    assert equality.score == 1.0
    assert nan.error is not None
    assert nan.error.code == "invalid_score"
    assert sleeps.error is not None
    assert sleeps.error.code == "timeout"


def test_without_retry_on_failure_nothing_is_tried_again(tmp_path: Path) -> None:
    calls = tmp_path / "calls.txt"
    (tmp_path / "graders.py").write_text(
        f"def count(ctx):\n    open({str(calls)!r}, 'a').write('x')\n    raise ConnectionError('refused')\n",
        encoding="utf-8",
    )
    (found,) = score(tmp_path, [spec(type="code", grader="graders:count")], "x")
    assert found.status == "failed"
    assert calls.read_text(encoding="utf-8") == "x"


def test_retry_on_failure_tries_a_transient_failure_again(tmp_path: Path) -> None:
    (tmp_path / "graders.py").write_text(
        "import pathlib\n"
        f"mark = pathlib.Path({str(tmp_path / 'mark')!r})\n"
        "def once(ctx):\n"
        "    if not mark.exists():\n"
        "        mark.touch()\n"
        "        raise ConnectionError('refused')\n"
        "    return 1.0\n",
        encoding="utf-8",
    )
    (found,) = score(tmp_path, [spec(type="code", grader="graders:once", retry_on_failure=1)], "x")
    assert (found.status, found.score) == ("completed", 1.0)


@pytest.mark.needs
def test_judged_metrics_fail_where_nobody_can_judge(tmp_path: Path) -> None:
    judged = [spec(type="geval", name="Tone", criteria="polite"), spec(type="rag", metric_type="answer_relevancy")]
    found = score(tmp_path, judged, "x")
    assert [item.error.code for item in found if item.error is not None] == ["no_judge", "no_judge"]
    assert [item.status for item in found] == ["failed", "failed"]


def test_a_turn_without_an_answer_has_its_evaluations_pending(tmp_path: Path) -> None:
    asked = turn(spec("bleu"), spec("equality", enabled=False), spec("meteor", inherited=True))

    async def run() -> tuple[Evaluation, ...]:
        async with WorkerPool(tmp_path, environ={}, cwd=tmp_path, size=1, code=CODE, redact=str) as pool:
            return scorer_for(pool).pending_evaluations(asked, "not evaluated: the agent crashed")

    bleu, equality, meteor = asyncio.run(run())
    assert (bleu.status, bleu.explanation, bleu.score) == ("pending", "not evaluated: the agent crashed", None)
    assert judge_evaluation(bleu).outcome == "error"
    assert (equality.status, meteor.status) == ("skipped", "skipped")


def test_criteria_hold_what_was_set(tmp_path: Path) -> None:
    entry = spec(
        "numeric",
        name="total",
        threshold=0.5,
        relative_tolerance=0.01,
        accept_percent=True,
        fail_on_error=True,
        timeout_ms=5000,
        retry_on_failure=2,
    )
    (found,) = score(tmp_path, [entry], "5%", ground_truth="5%")
    assert found.evaluator_name == "total"
    criteria = found.criteria
    assert (criteria.kind, criteria.metric, criteria.threshold, criteria.asserts) == ("standard", "numeric", 0.5, True)
    assert (criteria.polarity, criteria.fail_on_error) == ("maximize", True)
    assert criteria.settings == {
        "relative_tolerance": 0.01,
        "accept_percent": True,
        "timeout_ms": 5000,
        "retry_on_failure": 2,
    }


HOSTILE = ["\ud800", "\x00\x1b[2J", "\u202e" * 1000, "{}" * 5000, "%s %d {0}", "[" * 100_000, "9" * 10_000, "\n" * 9999]


@pytest.mark.parametrize("response", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_answers_are_scored_like_any_other(tmp_path: Path, response: str) -> None:
    metrics = [
        *map(spec, ["equality", "numeric", "bleu", "rouge", "meteor", "f1_score"]),
        spec("numeric", response_path="a[0].b"),
        spec(type="length", max_words=5),
    ]
    for expected in ("Paris", response):
        for item in score(tmp_path, metrics, response, ground_truth=expected):
            assert item.status == "completed", item
            assert item.explanation is not None
            item.explanation.encode()
            assert len(item.explanation) < 4000
            assert item.explanation.isprintable()
