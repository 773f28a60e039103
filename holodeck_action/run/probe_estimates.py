"""Estimates the model calls of the judges' probes, for the plan."""

from __future__ import annotations

import json
from collections.abc import Mapping

from holodeck_action.llm.limits.budget import COMPLETION_GUESS, text_tokens
from holodeck_action.llm.providers import ModelPlan
from holodeck_action.metrics.judging.verdicts import TIMES_ASKED
from holodeck_action.record.judge_probe import JudgeProbe
from holodeck_action.run.estimates import QUESTION_TOKENS, ModelEstimate, Range, model_estimate
from holodeck_action.run.judge_probes import planned_exams
from holodeck_action.run.run import Run
from holodeck_action.scoring.exams import ATTEMPTS
from holodeck_action.scoring.reuse import to_plain

_MOST_TIMES = ATTEMPTS * TIMES_ASKED


def estimate_probes(open_suite: Run, seen: Mapping[str, JudgeProbe]) -> tuple[ModelEstimate, ...]:
    """Estimate the calls of each model in a suite's probes: both answers once at least.

    At most, the probe is made twice, and each call is made again after a verdict that cannot be used.
    """
    if open_suite.resources.judges is None or open_suite.settings.calls.mode == "replay":
        return ()
    tallies: dict[tuple[str, str], list[int]] = {}
    plans: dict[tuple[str, str], ModelPlan] = {}
    for planned, earlier in planned_exams(open_suite, seen, open_suite.resources.target_pool):
        if earlier is not None:
            continue
        texts = json.dumps([to_plain(planned.exam.right), to_plain(planned.exam.absurd)])
        for plan, calls in planned.calls:
            key = plan.provider, plan.name
            plans[key] = plan
            tally = tallies.setdefault(key, [0, 0])
            tally[0] += 2 * calls
            tally[1] += 2 * calls * (QUESTION_TOKENS + text_tokens(texts) // 2)
    return tuple(_estimate(plans[key], *tallies[key]) for key in sorted(tallies))


def _estimate(plan: ModelPlan, calls: int, prompt_tokens: int) -> ModelEstimate:
    longest = plan.settings.get("max_tokens")
    most = longest if isinstance(longest, int) else COMPLETION_GUESS
    prompts = Range(prompt_tokens, _MOST_TIMES * prompt_tokens)
    return model_estimate(plan, Range(calls, _MOST_TIMES * calls), prompts, _MOST_TIMES * calls * most, most)
