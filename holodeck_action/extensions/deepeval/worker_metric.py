"""Runs a suite's own metric of DeepEval in a worker process; the main process calls the judge for it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from holodeck_action.extensions.deepeval.test_cases import build_metric, build_test_case
from holodeck_action.workers.code_errors import CallError
from holodeck_action.workers.json_values import python_scalar
from holodeck_action.workers.questions import MOST_OPEN

UNREPORTED_FACT = "unreported_fact"
"""Code of the error if a class reads tool calls or retrieved texts that the target does not report."""
_FACTS = ("tools_called", "retrieval_context")
Ask = Callable[[dict[str, Any]], Any]
Wait = Callable[[Any], Any]


def library_version(kind: Any, payload: Any, ask: Ask, wait_for: Wait) -> str:
    """Return the version of DeepEval in this environment."""
    from importlib.metadata import version

    return version("deepeval")


def measure(kind: Any, payload: Mapping[str, Any], ask: Ask, wait_for: Wait) -> dict[str, Any]:
    """Evaluate a test case by a metric.

    Args:
        kind: the metric's class.
        payload: `{case, traced, options, threshold, model_option, judge}`: see `build_test_case` and `build_metric`;
            `model_option` is the name of the constructor's argument for the judge, or empty, and `judge` its name.
        ask: asks the judge.
        wait_for: returns the result of an awaitable.

    Returns:
        `{score, reason, success}`.

    Raises:
        CallError: the class is not a metric (code `unsupported_type`), read an unknown fact (`unreported_fact`), tried
            to use the network (`network`), or gave no score (`invalid_score`).
    """
    from deepeval.metrics import BaseConversationalMetric, BaseMetric

    if not (isinstance(kind, type) and issubclass(kind, (BaseMetric, BaseConversationalMetric))):
        raise CallError("unsupported_type", "it is not a metric of the DeepEval in the suite's environment")
    test_case = build_test_case(payload["case"], payload["traced"])
    read = _guard_unknown_facts(test_case)
    name = payload["model_option"]
    with ThreadPoolExecutor(MOST_OPEN) as threads, _GUARD:
        model = {name: _model(payload["judge"], ask, threads)} if name else {}
        metric = build_metric(kind, payload["options"], (), payload["threshold"], **model)
        try:
            returned = _measure(metric, test_case, wait_for)
        finally:
            # Even if the class catches the error, its score does not count.
            if read:
                raise _unreported(read)
        score = returned if metric.score is None else metric.score
        reason, success, error = metric.reason, python_scalar(metric.is_successful()), metric.error
    if read:
        raise _unreported(read)
    if _GUARD.refused:
        raise CallError("network", f"it tried to use the network ({_GUARD.refused}); {_REMEDY}")
    if error is not None:
        raise CallError("raised", f"it set its error: {error}")
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not 0 <= score <= 1:
        raise CallError("invalid_score", f"it gave the score {score!r:.40}, which is not a number from 0 to 1")
    return {
        "score": float(score),
        "reason": None if reason is None else str(reason),
        "success": success is True,
    }


def _guard_unknown_facts(test_case: Any) -> set[str]:
    """Let reads of unknown facts raise an error, since None could make a wrong answer pass.

    Args:
        test_case: a test case of DeepEval; facts that are None are unknown, as empty lists are known.

    Returns:
        The names of the facts that have been read, filled when they are.
    """
    read: set[str] = set()
    turns = getattr(test_case, "turns", None)
    for part in [test_case] if turns is None else [turn for turn in turns if turn.role == "assistant"]:
        unknown = frozenset(name for name in _FACTS if getattr(part, name, ()) is None)
        if unknown:
            part.__class__ = _guarded(type(part), unknown, read)
    return read


def _guarded(kind: Any, unknown: frozenset[str], read: set[str]) -> Any:
    class Guarded(kind):  # type: ignore[misc]
        """A part of a test case with unknown facts."""

        def __getattribute__(self, name: str) -> Any:
            if name not in unknown:
                return super().__getattribute__(name)
            read.add(name)
            raise _unreported({name})

    return Guarded


def _unreported(names: set[str]) -> CallError:
    return CallError(UNREPORTED_FACT, f"it reads {' and '.join(sorted(names))}, which the target does not report")


def _measure(metric: Any, test_case: Any, wait_for: Wait) -> Any:
    """Return the score that `a_measure` returns, or `measure` if the class implements only that."""
    try:
        return wait_for(metric.a_measure(test_case, **_quiet(metric.a_measure)))
    except NotImplementedError:
        return metric.measure(test_case, **_quiet(metric.measure))


def _quiet(method: Any) -> dict[str, Any]:
    """Return the keyword argument that hides DeepEval's progress bar; an empty dict if `method` does not accept it."""
    import inspect

    return {"_show_indicator": False} if "_show_indicator" in inspect.signature(method).parameters else {}


class JudgeError(Exception):
    """The judge gave no usable answer; the main process knows the reason, and discards this evaluation's score."""


def _model(label: str, ask: Ask, threads: ThreadPoolExecutor) -> Any:
    from deepeval.models import DeepEvalBaseLLM

    base: Any = DeepEvalBaseLLM

    class SuiteJudge(base):  # type: ignore[misc]
        """A model for DeepEval that passes its prompts to the suite's judge."""

        def load_model(self, *args: Any, **kwargs: Any) -> Any:
            return self

        def get_model_name(self, *args: Any, **kwargs: Any) -> str:
            return label

        def generate(self, prompt: Any, schema: Any = None, **kwargs: Any) -> Any:
            wanted = {} if schema is None else {"schema": schema.model_json_schema(), "schema_name": schema.__name__}
            answer = ask({"prompt": str(prompt), **wanted})
            if "failed" in answer:
                raise JudgeError(answer["failed"])
            return answer["text"] if schema is None else schema.model_validate(answer["verdict"])

        async def a_generate(self, prompt: Any, schema: Any = None, **kwargs: Any) -> Any:
            import asyncio

            # Not the default threads: a class may fill them with its own work.
            return await asyncio.get_running_loop().run_in_executor(threads, self.generate, prompt, schema)

    return SuiteJudge(label)


_REMEDY = (
    "let it ask the model that its constructor gets as `model`, whose calls are recorded and limited, or write a code "
    "grader"
)
_NETWORK = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto")


class _NetworkGuard:
    """Within its block, this process cannot connect to other hosts or ports. This is not a sandbox: programs that the
    code starts are not restricted.

    `refused` is the name of the last refused audit event of Python; empty if none was refused.
    """

    def __init__(self) -> None:
        self.refused = ""
        self._closed = False
        self._installed = False

    def __enter__(self) -> None:
        if not self._installed:
            # A hook cannot be removed.
            sys.addaudithook(self._check)
            self._installed = True
        self.refused, self._closed = "", True

    def __exit__(self, *_: object) -> None:
        self._closed = False

    def _check(self, event: str, arguments: Any) -> None:
        if self._closed and event in _NETWORK and not _is_path(event, arguments):
            self.refused = event
            raise PermissionError(f"{event}: an own metric must not use the network; {_REMEDY}")


def _is_path(event: str, arguments: Any) -> bool:
    """Return whether the address of a connection is the path of a Unix socket."""
    return event in ("socket.connect", "socket.sendto") and isinstance(arguments[1], (str, bytes))


_GUARD = _NetworkGuard()
