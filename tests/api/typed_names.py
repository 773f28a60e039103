"""HoloDeck's examples and our public names, for the type checker of `make lint`; nothing runs this file."""

from __future__ import annotations

from holodeck.lib.test_runner.code_grader import GraderContext, GraderResult

from holodeck_action import (
    Case,
    LLMProvider,
    MetricVerdict,
    Record,
    Verdict,
    compare,
    evaluate,
    load_suite,
    score,
    verdict_of,
)
from holodeck_action.metrics import Bleu, Quality, Relevance


def subtracted(ctx: GraderContext) -> GraderResult:
    wanted = {"a": ctx.turn_config.get("expected_a"), "b": ctx.turn_config.get("expected_b")}
    for call in ctx.tool_invocations:
        if call.name == "subtract" and {"a": call.args.get("a"), "b": call.args.get("b")} == wanted:
            return GraderResult(score=1.0, passed=True, reason="the call is there")
    return GraderResult(score=0.0, reason="it is missing")


def judged(messages: list[dict[str, str]]) -> MetricVerdict:
    judge = LLMProvider(provider="openai", name="gpt-4o")
    for metric in (
        Quality(name="Helpful", model=judge),
        Relevance(model=judge),
    ):
        score(metric, messages[-1]["content"], input="Help!")
    return verdict_of(score(Bleu(threshold=0.3), "a b", ground_truth="a b"))


def compared(base: Record) -> Verdict:
    cases: tuple[Case, ...] = load_suite("agent.yaml").cases
    head = evaluate("agent.yaml", lambda messages: "yes", cases=[case.id for case in cases])
    assert not compare(base, head).regressed
    return verdict_of(head, base=base)
