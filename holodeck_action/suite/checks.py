"""Configuration errors that only show when the whole suite is known, and keys that would be sent unencrypted."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr

from holodeck_action.suite.applicability import (
    case_asserts,
    missing_static_inputs,
    skip_reason,
)
from holodeck_action.suite.errors import Problem, SourceMark, field_path, printable, quoted
from holodeck_action.suite.expectations import not_literal
from holodeck_action.suite.hosts import is_loopback
from holodeck_action.suite.messages import did_you_mean
from holodeck_action.suite.model.agent import AgentConfig
from holodeck_action.suite.model.policy import BOUNDS_OF_METRICS, GateMetric, Gates, Policy, gates_scores
from holodeck_action.suite.model.providers import ADDRESS_VARIABLES, KEY_VARIABLES, LLMProvider
from holodeck_action.suite.values import Case, MetricSpec, Turn
from holodeck_action.suite.yaml.document import Document
from holodeck_action.suite.yaml.document import Path as Where

Z = 1.959964
"""97.5 % quantile of the normal distribution, for 95 % intervals."""

_EXTERNAL = "needs a vector database, which this version does not use: documents are searched in memory; remove it"


def unsupported_settings(policy: Policy, document: Document) -> list[Problem]:
    """Settings of the policy file that this version cannot honour: ignoring them would be a gate that never closes."""
    return [document.problem(("vectorstores", "external"), _EXTERNAL)] if policy.vectorstores.external else []


def unknown_labels(policy: Policy, labels: Iterable[str], document: Document) -> list[Problem]:
    """Gates on metrics that the suite does not have."""
    known = sorted(set(labels))
    places: list[tuple[Where, str]] = [(("gates", "metrics", name), name) for name in policy.gates.metrics]
    if policy.gates.summary is not None:
        places += ((("gates", "summary", "weights", name), name) for name in policy.gates.summary.weights or ())
    options = f" (allowed: {', '.join(quoted(label) for label in known)})" if known else ""
    return [
        document.problem(
            path, f"{quoted(name)} is no metric of this suite{did_you_mean(name, known)}{options}", key=True
        )
        for path, name in places
        if name not in known
    ]


def bounds_against_polarity(policy: Policy, cases: Iterable[Case], document: Document) -> list[Problem]:
    """Gates that ask for high scores of a metric whose low scores are good, or the other way round."""
    minimized = {
        spec.label
        for case in cases
        for turn in case.turns
        for spec in turn.metrics
        if spec.config.polarity == "minimize"
    }
    return [
        document.problem(("gates", "metrics", name, key), problem, key=True)
        for name, bounds in policy.gates.metrics.items()
        for key, problem in wrong_bounds(name, bounds, low_is_good=name in minimized)
    ]


def wrong_bounds(name: str, bounds: GateMetric, *, low_is_good: bool) -> Iterator[tuple[str, str]]:
    """Yield every bound on a metric that points the wrong way, with the way out.

    Args:
        name: the metric's.
        bounds: those given.
        low_is_good: its polarity; metrics of one name have one.
    """
    for below, above in BOUNDS_OF_METRICS:
        if low_is_good and getattr(bounds, below) is not None:
            yield below, f"{quoted(name)} is better when lower, and this asks for high scores: use {above}"
        if not low_is_good and getattr(bounds, above) is not None:
            yield above, f"{quoted(name)} is better when higher, and this asks for low scores: use {below}"


def unreachable_lower_bound(policy: Policy, cases: Sequence[Case], document: Document) -> list[Problem]:
    """`min_pass_rate_lower_bound` against its value when every case passes: n / (n + z²), the Wilson bound at p = 1.

    Cases that assert nothing or are quarantined do not count. docs/results.md says how rates are computed.
    """
    bound = policy.gates.min_pass_rate_lower_bound
    if bound is None:
        return []
    quarantined = {entry.case for entry in policy.quarantine}
    count = sum(case.id not in quarantined and case_asserts(case) for case in cases)
    if count / (count + Z * Z) >= bound:
        return []
    if bound == 1.0:
        message = "can never be reached: a lower bound is always below 1"
    else:
        needed = math.ceil(bound * Z * Z / (1.0 - bound))
        message = f"cannot be reached with {count} counting case{'' if count == 1 else 's'}: it needs {needed}"
    return [document.problem(("gates", "min_pass_rate_lower_bound"), message)]


def metrics_that_never_apply(
    specs: Sequence[MetricSpec], fields: Sequence[str], cases: Sequence[Case]
) -> tuple[list[Problem], list[str]]:
    """Suite-level metrics whose inputs no turn has, as problems; those that every case replaces, as notices.

    Args:
        specs: the suite-level specs.
        fields: the path of each one's entry.
        cases: the cases.
    """
    waiting = {spec.mark: (spec, field) for spec, field in zip(specs, fields, strict=True) if spec.config.enabled}
    unused = dict(waiting)
    for case in cases:
        if not waiting:
            break
        for turn in case.turns:
            for spec in turn.metrics:
                if spec.inherited and spec.mark in waiting:
                    unused.pop(spec.mark, None)
                    if not missing_static_inputs(spec, turn):
                        del waiting[spec.mark]
    notices = [f"{field}: no case uses this metric, because every case lists its own" for _, field in unused.values()]
    problems = []
    for mark, (spec, field) in waiting.items():
        if mark not in unused:
            names = " and ".join(sorted(spec.config.needs - {"retrieval_context", "retrieved_chunks"}))
            problems.append(
                Problem(mark, field, f"applies to no turn: no case gives {names}; give it or remove the metric")
            )
    return problems, notices


def inexpressible_calls(cases: Iterable[Case]) -> list[Problem]:
    """Expected calls whose arguments a metric of DeepEval is to compare and cannot."""
    problems: dict[tuple[SourceMark, str], Problem] = {}
    for case in cases:
        for turn in case.turns:
            for spec in turn.metrics:
                compared = any(config.compares_literals for config in spec.config.computed_by_library())
                for place, reason in _not_literal(turn) if compared and skip_reason(spec, turn) is None else ():
                    message = f"{quoted(spec.label)} ({spec.mark}) cannot grade this: {reason}"
                    problems.setdefault((turn.mark, place), Problem(turn.mark, place, message))
    return list(problems.values())


def _not_literal(turn: Turn) -> Iterator[tuple[str, str]]:
    """Yield the place of each expected call that is no plain value, with the reason."""
    name, entries = "expected_trajectory", turn.expected_trajectory
    if entries is None:
        name, entries = "expected_tools", turn.expected_tools.tools if turn.expected_tools is not None else ()
    for index, entry in enumerate(entries):
        reason = not_literal(entry)
        if reason is not None:
            yield f"{name}[{index}]", reason


def nothing_asserts(cases: Sequence[Case], gates: Gates, document: Document) -> list[Problem]:
    """A suite in which neither a case nor a gate on scores can fail is green for the wrong reason."""
    if gates_scores(gates) or any(case_asserts(case) for case in cases):
        return []
    message = (
        "nothing in this suite can fail: give a metric a threshold, add a metric that asserts (such as equality), "
        "add expected_tools to a case, or give gates.metrics a bound such as min_mean"
    )
    return [document.problem(("evaluations",), message)]


def duplicate_tools(agent: AgentConfig, document: Document) -> list[Problem]:
    """Tools whose name another tool has."""
    first: dict[str, int] = {}
    problems = []
    for index, tool in enumerate(agent.tools or ()):
        if tool.name in first:
            message = f"{quoted(tool.name)} is already the name of tools[{first[tool.name]}]: tool names must differ"
            problems.append(document.problem(("tools", index, "name"), message))
        first.setdefault(tool.name, index)
    return problems


_ADDRESSES = ("endpoint", "url")
_UNSET = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")


def plain_addresses(block: BaseModel, document: Document, environ: Mapping[str, str]) -> list[Problem]:
    """Find the `http://` addresses of other machines that a key or headers go with.

    Args:
        block: a validated file.
        document: the file as written.
        environ: keys and addresses that the file omits.
    """
    return [document.problem(path, _message(host)) for path, host in _found(block, environ, ())]


def plain_in_cases(cases: Sequence[Case], environ: Mapping[str, str]) -> list[Problem]:
    """Find such addresses in the metrics of cases, each at its metric."""
    own = {
        id(spec.config): spec for case in cases for turn in case.turns for spec in turn.metrics if not spec.inherited
    }
    return [
        Problem(spec.mark, field_path(path), _message(host))
        for spec in own.values()
        for path, host in _found(spec.config, environ, ())
    ]


def _message(host: str) -> str:
    return (
        f"a key would be sent unencrypted to {printable(host)} (allowed: https, this machine, or any with "
        "--allow-plain-http, which is an input of the action, too)"
    )


def _found(value: Any, environ: Mapping[str, str], path: Where) -> Iterator[tuple[Where, str]]:
    """Yield the place and the host of each such address."""
    if isinstance(value, LLMProvider):
        address = value.endpoint or environ.get(ADDRESS_VARIABLES.get(value.provider, ""), "")
        host = _plain_host(address)
        if host is not None and _has_key(value, environ):
            yield (*path, "endpoint"), host
    elif isinstance(value, BaseModel):
        for name in _ADDRESSES:
            host = _plain_host(getattr(value, name, None))
            if host is not None and (getattr(value, "headers", None) or _has_user(getattr(value, name))):
                yield (*path, name), host
        for name in type(value).model_fields:
            yield from _found(getattr(value, name), environ, (*path, name))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _found(item, environ, (*path, index))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _found(item, environ, (*path, str(key)))


def _has_key(model: LLMProvider, environ: Mapping[str, str]) -> bool:
    given = model.api_key.get_secret_value().strip() if isinstance(model.api_key, SecretStr) else ""
    # A variable that is not set is no key.
    own = bool(given) and _UNSET.search(given) is None
    return own or any(environ.get(name, "").strip() for name in KEY_VARIABLES[model.provider])


def _plain_host(address: object) -> str | None:
    """Return the host of an `http://` address of another machine, None for any other text."""
    if not isinstance(address, str) or not address.strip().lower().startswith("http:"):
        return None
    try:
        host = (urlsplit(address.strip()).hostname or "").rstrip(".")
    except ValueError:
        return None
    return host if host and not is_loopback(host) else None


def _has_user(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.username or parts.password)
