"""Spans of evaluations in a program of one's own, which has set up OpenTelemetry itself.

Inside a run the spans are those of `scoring.traced`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holodeck_action.metrics.base import EvaluationResult
from holodeck_action.metrics.errors import EvaluationError

if TYPE_CHECKING:
    from holodeck_action.suite.agent import Traces
    from holodeck_action.tracing.spans import Span


def evaluation_span(name: str, given: Mapping[str, Any], config: Traces) -> Span:
    """Start the span of an evaluation, below the program's current one.

    Args:
        name: of the metric.
        given: the evaluator's inputs; in the span only where `capture_content` or `capture_evaluation_content` asks for
            them.
        config: what is kept of it. How many spans wait is the program's own provider's to say.

    Raises:
        EvaluationError: OpenTelemetry is not installed (code `not_installed`).
    """
    try:
        from holodeck_action.tracing.otel import program_span
    except ImportError as error:
        raise EvaluationError(
            f"observability_config needs a package that is not installed ({error.name or error}); "
            "install it with: pip install 'holodeck-action[otel]'",
            code="not_installed",
        ) from error
    span = program_span(
        f"evaluate {name}",
        {"gen_ai.evaluation.name": name},
        rate=config.sample_rate,
        content=config.capture_content or config.capture_evaluation_content,
        patterns=config.redaction_patterns,
    )
    if span.content:
        span.set_content("holodeck_action.evaluation.inputs", {key: _shown(value) for key, value in given.items()})
    return span


def tell_result(span: Span, result: EvaluationResult) -> None:
    """Add what came of an evaluation to its span."""
    score = result.score
    span.set(
        {
            "gen_ai.evaluation.score.value": float(score) if isinstance(score, bool | int | float) else None,
            "gen_ai.evaluation.score.label": None if result.passed is None else "pass" if result.passed else "fail",
        }
    )
    span.set_content("gen_ai.evaluation.explanation", result.reasoning)


def _shown(value: Any) -> Any:
    return value if isinstance(value, str) else [str(part) for part in value] if isinstance(value, list) else str(value)
