"""Creation of agents from targets."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from holodeck_action.seam import registry
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.model.policy import Spans
from holodeck_action.suite.model.targets import (
    AddedTarget,
    AnyTarget,
    CallableTarget,
    CommandTarget,
    ConversationsTarget,
    ExternalTarget,
    HttpTarget,
    ModelTarget,
    PythonTarget,
    RecordedTarget,
)
from holodeck_action.suite.values import Suite
from holodeck_action.targets.protocol import Agent
from holodeck_action.text.foreign import Redact
from holodeck_action.workers.permission import CodeAllowed
from holodeck_action.workers.pool import WorkerPool

if TYPE_CHECKING:
    from holodeck_action.llm.cassette.recorded_calls import Recording
    from holodeck_action.targets.spans import Listener, Receivers, SpanReader


def build_agent(
    suite: Suite,
    target: ExternalTarget,
    *,
    checkout: Checkout,
    environ: Mapping[str, str],
    max_bytes: int,
    code: CodeAllowed,
    pool: WorkerPool,
    redact: Redact,
    receivers: Receivers | None = None,
    recording: Recording | None = None,
) -> Agent:
    """Return the agent for a target that is not the suite's own model.

    Args:
        suite: the suite with all its cases, against which a transcript is checked.
        target: the target from the policy file or from `parse_target`.
        checkout: the base folder of a transcript's path, and the folders that may be read: the suite's checkout for a
            target from the policy file, the current folder without restriction for a target from an option.
        environ: the job's environment; processes do not receive the job's tokens.
        max_bytes: maximum bytes of UTF-8 in one reply (`limits.max_response_bytes`).
        code: the permission to start a command.
        pool: the workers of a Python target; they collect spans if the policy file enables spans.
        redact: removes secrets from the target's error output.
        receivers: the span receivers of the run; None to create them.
        recording: where the answers of a target of an extension are stored or repeated; None if they are neither.

    Raises:
        TargetError: the target cannot be used.
    """
    warm_up = suite.policy.warm_up
    match target:
        case ConversationsTarget(transcript=transcript):
            from holodeck_action.targets.recorded import RecordedAgent

            return RecordedAgent(checkout.folder, describe_target(target), suite.cases, max_bytes, opener=transcript)
        case RecordedTarget(path=path):
            from holodeck_action.targets.recorded import RecordedAgent

            return RecordedAgent(checkout.folder / path, path, suite.cases, max_bytes, checkout)
        case PythonTarget():
            from holodeck_action.targets.python import PythonAgent

            return PythonAgent(
                target.worker_reference, pool, max_bytes, warm_up, _span_reader(suite, max_bytes, redact)
            )
        case CallableTarget(called=called, name=name):
            from holodeck_action.targets.callables import CallableAgent

            return CallableAgent(called, name, suite, max_bytes, redact)
        case CommandTarget(command=command):
            from holodeck_action.targets.command import CommandAgent

            listener = _listener(suite, max_bytes, redact, receivers, fixed_port=False)
            return CommandAgent(command, suite.folder, environ, max_bytes, redact, warm_up, listener, code=code)
        case HttpTarget():
            from holodeck_action.targets.http import HttpAgent

            listener = _listener(suite, max_bytes, redact, receivers, fixed_port=True)
            return HttpAgent(target, max_bytes, environ, redact, warm_up, listener)
        case AddedTarget():
            given = {"checkout": checkout, "environ": environ, "max_bytes": max_bytes, "code": code, "redact": redact}
            build = registry.resolve(registry.targets()[target.kind].build)
            agent: Agent = build(target, suite=suite, recording=recording, **given)
            return agent


def _span_reader(suite: Suite, max_bytes: int, redact: Redact) -> SpanReader | None:
    """Return the reader of the target's spans; None if the suite does not use spans."""
    if not suite.policy.spans:
        return None
    from holodeck_action.targets.spans import span_reader

    return span_reader(max_bytes, redact)


def _listener(
    suite: Suite, max_bytes: int, redact: Redact, receivers: Receivers | None, *, fixed_port: bool
) -> Listener | None:
    """Return the listener for the target's spans; None if the suite does not use spans.

    Args:
        fixed_port: whether to listen on the port of the policy file instead of any free port.
    """
    reader, spans = _span_reader(suite, max_bytes, redact), suite.policy.spans
    if reader is None:
        return None
    from holodeck_action.targets.spans import Receivers

    port = (spans if isinstance(spans, Spans) else Spans()).port
    return (receivers or Receivers()).listener(port if fixed_port else 0, reader)


def describe_target(target: AnyTarget) -> str:
    """Return a target for the record, such as `http:https://host/path`, without parts that may contain secrets.

    These parts are the user, password, query and fragment of a URL, and the words of a command from its first option or
    assignment on.
    """
    match target:
        case ModelTarget(model=model):
            return f"model:{model}"
        case ConversationsTarget(name=name, path=path):
            return f"{name}:{path}"
        case RecordedTarget(path=path):
            return f"recorded:{path}"
        case PythonTarget(reference=reference, framework=framework):
            return f"{framework or 'python'}:{reference}"
        case CallableTarget(name=name):
            return f"python:{name}"
        case CommandTarget(command=command):
            return f"command:{_redact_command(command)}"
        case HttpTarget(url=url):
            from holodeck_action.suite.hosts import url_without_secrets

            return f"http:{url_without_secrets(url)}"
        case AddedTarget():
            return f"{target.kind}:{target.shown}"


def _redact_command(command: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError:
        return "…"
    cut = next((index for index, word in enumerate(words) if word.startswith("-") or "=" in word), len(words))
    return " ".join([*words[:cut], *(["…"] if cut < len(words) else [])])
