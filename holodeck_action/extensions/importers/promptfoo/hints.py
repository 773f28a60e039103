"""Notes on assertions without a counterpart: the reason, or what to use instead."""

from __future__ import annotations

from collections.abc import Mapping

_OUTPUT = "the answer of a model here is text, and its calls are tool calls; use expected_tools with args"
_COMPARE = "it compares several agents in one case; compare two runs with --against"
_FORMAT = "there is no check for this notation; write a code grader"
_TRACE = "graders see no spans; use expected_tools, or limits and gates of the policy file"
_SEARCH = "its judge uses tools; write the facts as ground_truth and use factual_accuracy"
_DISTANCE = "only the cosine of embeddings is computed; use a similar metric"

HINTS: Mapping[str, str] = {
    "agent-rubric": _SEARCH,
    "classifier": "classifiers are not called; use toxicity, a geval metric or a code grader",
    "contains-html": _FORMAT,
    "contains-sql": _FORMAT,
    "contains-xml": _FORMAT,
    "cost": "costs are limited for a whole run: gates.max_cost_usd of the policy file",
    "finish-reason": "reports show truncated answers, but no metric asserts that",
    "guardrails": "the reply has no field for it; use toxicity or refusal",
    "is-html": _FORMAT,
    "is-sql": _FORMAT,
    "is-valid-function-call": _OUTPUT,
    "is-valid-openai-function-call": _OUTPUT,
    "is-valid-openai-tools-call": _OUTPUT,
    "is-xml": _FORMAT,
    "latency": "a limit for single cases, or one without a number; set limits.turn_timeout_s of the policy file",
    "max-score": _COMPARE,
    "moderation": "moderation services are not called; use toxicity",
    "perplexity": "log probabilities of answers are not recorded",
    "perplexity-score": "log probabilities of answers are not recorded",
    "pi": "its service is not called; use a geval metric",
    "ruby": "Ruby is not run; write a code grader in Python",
    "search-rubric": _SEARCH,
    "select-best": _COMPARE,
    "similar:dot": _DISTANCE,
    "similar:euclidean": _DISTANCE,
    "skill-used": _TRACE,
    "trace-error-spans": _TRACE,
    "trace-span-count": _TRACE,
    "trace-span-duration": _TRACE,
    "trajectory:goal-success": "use trajectory_accuracy, or a geval metric on the answer",
    "video-rubric": "answers are text",
    "webhook": "services are not called for a verdict; call the service in a code grader",
}
