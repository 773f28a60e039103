"""From a target to the agent that answers for it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.model.policy import Spans
from holodeck_action.suite.model.targets import (
    AnyTarget,
    CommandTarget,
    HttpTarget,
    ModelTarget,
    PythonTarget,
    RecordedTarget,
    WrittenTarget,
)
from holodeck_action.suite.values import Suite
from holodeck_action.targets.protocol import Agent
from holodeck_action.text.foreign import Redact
from holodeck_action.workers.permission import CodeAllowed
from holodeck_action.workers.pool import WorkerPool

if TYPE_CHECKING:
    from holodeck_action.extensions.frameworks.spans.listening import Listener, Receivers
    from holodeck_action.extensions.frameworks.spans.reader import SpanReader


def build_agent(
    suite: Suite,
    target: WrittenTarget,
    *,
    files: Checkout,
    environ: Mapping[str, str],
    max_bytes: int,
    code: CodeAllowed,
    pool: WorkerPool,
    redact: Redact,
    receivers: Receivers | None = None,
) -> Agent:
    """Return the agent of a target that somebody wrote; each kind's module is imported only when it is used.

    Args:
        suite: the suite, with all its cases: an agent checks a transcript against them.
        target: from the policy file or from `parse_target`.
        files: where a relative transcript path starts, and what may be read: the suite's checkout for the policy file,
            the current folder and everything for a flag.
        environ: the job's environment; processes see it without the job's tokens.
        max_bytes: most bytes of UTF-8 in one reply (`limits.max_response_bytes`).
        code: the permission to start a command.
        pool: where a Python target runs; it collects spans where the policy file wants them.
        redact: removes secrets from what the target says of its trouble.
        receivers: those of the run, for spans of other targets; None for some of its own.

    Raises:
        TargetError: the target cannot be used.
    """
    warm_up = suite.policy.warm_up
    match target:
        case RecordedTarget(path=path):
            from holodeck_action.targets.recorded import RecordedAgent

            return RecordedAgent(files.folder / path, path, suite.cases, max_bytes, files)
        case PythonTarget():
            from holodeck_action.targets.python import PythonAgent

            return PythonAgent(target.called, pool, max_bytes, warm_up, _span_reader(suite, max_bytes, redact))
        case CommandTarget(command=command):
            from holodeck_action.targets.command import CommandAgent

            listener = _listener(suite, max_bytes, redact, receivers, fixed=False)
            return CommandAgent(command, suite.folder, environ, max_bytes, redact, warm_up, listener, code=code)
        case HttpTarget():
            from holodeck_action.targets.http import HttpAgent

            listener = _listener(suite, max_bytes, redact, receivers, fixed=True)
            return HttpAgent(target, max_bytes, environ, redact, warm_up, listener)


def _span_reader(suite: Suite, max_bytes: int, redact: Redact) -> SpanReader | None:
    """Return what reads the spans of the target; None where the suite does not want them."""
    if not suite.policy.spans:
        return None
    from holodeck_action.extensions.frameworks.spans.reader import SpanReader

    return SpanReader(max_bytes, redact)


def _listener(
    suite: Suite, max_bytes: int, redact: Redact, receivers: Receivers | None, *, fixed: bool
) -> Listener | None:
    """Return what receives the spans of the target, at a `fixed` port or any; None if the suite does not want them."""
    reader, spans = _span_reader(suite, max_bytes, redact), suite.policy.spans
    if reader is None:
        return None
    from holodeck_action.extensions.frameworks.spans.listening import Listener, Receivers

    port = (spans if isinstance(spans, Spans) else Spans()).port
    return Listener((receivers or Receivers()).at(port if fixed else 0), reader)


def describe(target: AnyTarget) -> str:
    """Name a target for the record: kind and address, without what may be secret.

    A URL is shown without user, password, query and fragment; a command up to its first option or assignment.
    """
    match target:
        case ModelTarget(model=model):
            return f"model:{model}"
        case RecordedTarget(path=path):
            return f"recorded:{path}"
        case PythonTarget(reference=reference, framework=framework):
            return f"{framework or 'python'}:{reference}"
        case CommandTarget(command=command):
            return f"command:{_shown_command(command)}"
        case HttpTarget(url=url):
            from holodeck_action.suite.hosts import shown_url

            return f"http:{shown_url(url)}"


def _shown_command(command: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError:
        return "…"
    cut = next((index for index, word in enumerate(words) if word.startswith("-") or "=" in word), len(words))
    return " ".join([*words[:cut], *(["…"] if cut < len(words) else [])])
