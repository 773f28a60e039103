"""Adds tracing to the stages of a run: each traced suite runs inside a root span, and the spans are sent afterwards."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holodeck_action.extensions.tracing.settings import secrets
from holodeck_action.extensions.tracing.traces import FlushTime, TracePlan, plan_traces
from holodeck_action.llm.spans import NO_SPAN, SpanScope
from holodeck_action.run.options.action_inputs import Flags
from holodeck_action.run.stages import StagedSuite, Stages, UserOutput
from holodeck_action.seam.extras import way_to_get
from holodeck_action.suite.values import Suite
from holodeck_action.text.plain import cut
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import environment_secrets

if TYPE_CHECKING:
    from holodeck_action.extensions.tracing.otel import OtelTraces


_EXTRA = "otel"


class TracingStages(Stages):
    """Traces the suites whose `observability` section enables traces."""

    def __init__(self) -> None:
        self._flush = FlushTime()

    def extras(self, suite: Suite, flags: Flags, environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """Return the extra that traces need, if the suite sends traces; see `Stages.extras`."""
        planned = plan_traces(suite.agent.observability, suite.name, environ)
        return () if planned.plan is None else ((_EXTRA, "observability"),)

    @contextmanager
    def run_context(self, staged: StagedSuite, user_output: UserOutput) -> Iterator[None]:
        """Trace the run of a suite inside the context, if the suite enables tracing."""
        suite = staged.suite
        # The SDK reads the variables of the process, which an env file does not change.
        environ = {name: value for name, value in staged.environ.items() if name in os.environ}
        planned = plan_traces(suite.agent.observability, suite.name, environ)
        unread = [name for name in staged.environ.keys() - environ if name.startswith("OTEL_")]
        if unread and planned.plan is not None:
            user_output.note(f"{', '.join(sorted(unread))}: not read from an env file; set it for the whole process")
        for notice in planned.notices:
            user_output.note(staged.redactor.text(notice))
        traces = None if planned.plan is None else _open_traces(planned.plan, staged, user_output)
        try:
            attributes = {"holodeck_action.suite.name": suite.name}
            with SpanScope(NO_SPAN if traces is None else traces.root(f"run {suite.name}", attributes)):
                yield
        finally:
            for notice in () if traces is None else self._flush.spend(traces.close):
                user_output.note(notice)


def _open_traces(plan: TracePlan, staged: StagedSuite, user_output: UserOutput) -> OtelTraces | None:
    """Return the traces of a run; if they cannot be sent, print a notice and return None, so that no suite fails."""
    suite = staged.suite
    # These attributes may contain values of variables, except those that their name or the policy file makes secret.
    hidden = {
        *environment_secrets(staged.environ),
        *suite.policy.secrets,
        *secrets(suite.agent.observability),
    }
    try:
        from holodeck_action.extensions.tracing.otel import OtelTraces

        return OtelTraces(
            plan,
            redactor=staged.redactor,
            resource_redactor=Redactor(hidden),
            stderr=user_output.stderr,
            uniform=random.random,
        )
    except ImportError as error:
        user_output.note(
            f"observability: traces need a package that is not installed ({error.name or error}), so none are sent; "
            f"{way_to_get(_EXTRA)}"
        )
    except Exception as error:  # noqa: BLE001 - no suite fails because of its traces
        said = f"observability: traces cannot be sent: {type(error).__name__}: {error}"
        user_output.note(cut(staged.redactor.text(said), 500))
    return None
