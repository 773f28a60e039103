"""Checks that need the whole suite, and checks for keys that would be sent unencrypted."""

from __future__ import annotations

import math
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
from holodeck_action.suite.expectations import literal_problem
from holodeck_action.suite.hosts import is_loopback
from holodeck_action.suite.messages import did_you_mean
from holodeck_action.suite.model.agent import AgentConfig
from holodeck_action.suite.model.policy import BOUNDS_OF_METRICS, GateMetric, Gates, Policy, has_score_gate
from holodeck_action.suite.model.providers import ADDRESS_VARIABLES, KEY_VARIABLES, LLMProvider
from holodeck_action.suite.values import Case, MetricSpec, Turn
from holodeck_action.suite.yaml.document import Document
from holodeck_action.suite.yaml.document import Path as Where
from holodeck_action.text.lazy_patterns import lazy_pattern

Z = 1.959964
"""97.5 % quantile of the normal distribution, for 95 % intervals."""

FEWEST_PAIRS = 10
"""Minimum number of cases for an interval of the win rate."""

_EXTERNAL = "needs a vector database, which this version does not use: documents are searched in memory; remove it"


def unsupported_settings(policy: Policy, document: Document) -> list[Problem]:
    """Return problems of policy settings that this version does not support and cannot safely ignore."""
    return [document.problem(("vectorstores", "external"), _EXTERNAL)] if policy.vectorstores.external else []


def unknown_labels(policy: Policy, labels: Iterable[str], document: Document) -> list[Problem]:
    """Return problems of gates on metrics that the suite does not have."""
    known = sorted(set(labels))
    places: list[tuple[Where, str]] = [(("gates", "metrics", name), name) for name in policy.gates.metrics]
    if policy.gates.summary is not None:
        places += ((("gates", "summary", "weights", name), name) for name in policy.gates.summary.weights or ())
    options = f" (allowed: {', '.join(quoted(label) for label in known)})" if known else ""
    return [
        document.problem(
            path, f"{quoted(name)} is not a metric of this suite{did_you_mean(name, known)}{options}", key=True
        )
        for path, name in places
        if name not in known
    ]


def misdirected_bounds(policy: Policy, cases: Iterable[Case], document: Document) -> list[Problem]:
    """Return problems of gates that bound a metric in the wrong direction, such as `min_mean` if low scores are
    good."""
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
    """Yield (key, message) for each bound that has the wrong direction for the metric.

    Args:
        name: name of the metric.
        bounds: the bounds on the metric.
        low_is_good: whether low scores of the metric are good.
    """
    for below, above in BOUNDS_OF_METRICS:
        if low_is_good and getattr(bounds, below) is not None:
            yield below, f"{quoted(name)} is better when lower, but this bound requires high scores: use {above}"
        if not low_is_good and getattr(bounds, above) is not None:
            yield above, f"{quoted(name)} is better when higher, but this bound requires low scores: use {below}"


def unreachable_lower_bound(policy: Policy, cases: Sequence[Case], document: Document) -> list[Problem]:
    """Return the problem of a suite with too few cases for `min_pass_rate_lower_bound`; empty if there are enough.

    If all n cases pass, the lower end of the Wilson interval is n / (n + z²). Cases without assertions and quarantined
    cases do not count. docs/verdict.md describes how rates are computed.
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
        message = (
            f"cannot be reached with {count} case{'' if count == 1 else 's'}: it needs {needed} "
            "(cases that are quarantined or cannot fail do not count)"
        )
    return [document.problem(("gates", "min_pass_rate_lower_bound"), message)]


def bound_above_ties(policy: Policy, cases: Sequence[Case]) -> list[str]:
    """Return a notice if `min_win_rate_lower_bound` is above the lower end that ties alone reach; else an empty list.

    If all n pairs tie, the lower end of Tango's interval of the win rate is 1/2 − z²/(2(n + z²)). It is below 1/2, so a
    bound of 1/2 or more asks for a better agent on purpose.
    """
    bound = policy.gates.min_win_rate_lower_bound
    if bound is None or bound >= 0.5:
        return []
    quarantined = {entry.case for entry in policy.quarantine}
    count = sum(case.id not in quarantined and case.name not in quarantined for case in cases)
    needed = max(FEWEST_PAIRS, math.ceil(2 * bound * Z * Z / (1 - 2 * bound)))
    if count >= needed:
        return []
    return [
        f"gates.min_win_rate_lower_bound: {bound:g} needs at least {needed} cases if all pairs tie, as with an "
        f"unchanged agent; this suite has {count}"
    ]


def metrics_that_never_apply(
    specs: Sequence[MetricSpec], fields: Sequence[str], cases: Sequence[Case], missing_reason: str | None = None
) -> tuple[list[Problem], list[str]]:
    """Return problems of suite-level metrics whose inputs are missing on every turn, and notices about suite-level
    metrics that are unused because every case has its own list of metrics.

    Args:
        specs: the suite-level specs.
        fields: the path of each spec's entry.
        cases: the cases.
        missing_reason: the message of a problem, in which `{}` stands for the missing inputs; None for the default
            message about a suite's cases.
    """
    message = missing_reason or "applies to no turn, because no case gives {}; give it, or remove the metric"
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
            problems.append(Problem(mark, field, message.format(names)))
    return problems, notices


def inexpressible_calls(cases: Iterable[Case]) -> list[Problem]:
    """Return problems of expected tool calls whose arguments a metric of DeepEval cannot compare."""
    problems: dict[tuple[SourceMark, str], Problem] = {}
    for case in cases:
        for turn in case.turns:
            for spec in turn.metrics:
                compared = any(config.compares_literals for config in spec.config.library_parts())
                for place, reason in _non_literal_calls(turn) if compared and skip_reason(spec, turn) is None else ():
                    message = f"{quoted(spec.label)} ({spec.mark}) cannot grade this: {reason}"
                    problems.setdefault((turn.mark, place), Problem(turn.mark, place, message))
    return list(problems.values())


def _non_literal_calls(turn: Turn) -> Iterator[tuple[str, str]]:
    """Yield the path and the reason for each expected tool call whose arguments are not plain values."""
    name, entries = "expected_trajectory", turn.expected_trajectory
    if entries is None:
        name, entries = "expected_tools", turn.expected_tools.tools if turn.expected_tools is not None else ()
    for index, entry in enumerate(entries):
        reason = literal_problem(entry)
        if reason is not None:
            yield f"{name}[{index}]", reason


def missing_assertions(cases: Sequence[Case], gates: Gates, document: Document) -> list[Problem]:
    """Return a list with one problem if neither a case nor a gate on scores can fail, else an empty list."""
    if has_score_gate(gates) or any(case_asserts(case) for case in cases):
        return []
    message = (
        "nothing in this suite can fail: give a metric a threshold, add a metric that asserts (such as equality), "
        "add expected_tools to a case, or give gates.metrics a bound such as min_mean"
    )
    return [document.problem(("evaluations",), message)]


def duplicate_tools(agent: AgentConfig, document: Document) -> list[Problem]:
    """Return problems of tools with the name of an earlier tool."""
    first: dict[str, int] = {}
    problems = []
    for index, tool in enumerate(agent.tools or ()):
        if tool.name in first:
            message = f"{quoted(tool.name)} is already the name of tools[{first[tool.name]}]: tool names must be unique"
            problems.append(document.problem(("tools", index, "name"), message))
        first.setdefault(tool.name, index)
    return problems


_ADDRESSES = ("endpoint", "url")
_UNSET = lazy_pattern(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")


def unencrypted_addresses(block: BaseModel, document: Document, environ: Mapping[str, str]) -> list[Problem]:
    """Return problems of `http://` URLs on other machines to which a key or headers would be sent.

    Args:
        block: a validated file.
        document: the file as written.
        environ: the environment variables with the keys and URLs that the file omits.
    """
    return [document.problem(path, _unencrypted_message(host)) for path, host in _find_plain_hosts(block, environ, ())]


def unencrypted_case_addresses(cases: Sequence[Case], environ: Mapping[str, str]) -> list[Problem]:
    """Return problems of `http://` URLs to which metrics of cases would send a key."""
    own = {
        id(spec.config): spec for case in cases for turn in case.turns for spec in turn.metrics if not spec.inherited
    }
    return [
        Problem(spec.mark, field_path(path), _unencrypted_message(host))
        for spec in own.values()
        for path, host in _find_plain_hosts(spec.config, environ, ())
    ]


def _unencrypted_message(host: str) -> str:
    return (
        f"a key would be sent unencrypted to {printable(host)} (allowed: https, this machine, or any with "
        "--allow-plain-http, which is an input of the action, too)"
    )


def _find_plain_hosts(value: Any, environ: Mapping[str, str], path: Where) -> Iterator[tuple[Where, str]]:
    """Yield the path and the host of each `http://` URL on another machine to which a key or headers would be sent."""
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
            yield from _find_plain_hosts(getattr(value, name), environ, (*path, name))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _find_plain_hosts(item, environ, (*path, index))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _find_plain_hosts(item, environ, (*path, str(key)))


def _has_key(model: LLMProvider, environ: Mapping[str, str]) -> bool:
    given = model.api_key.get_secret_value().strip() if isinstance(model.api_key, SecretStr) else ""
    # A reference to an unset variable is not a key.
    own = bool(given) and _UNSET.search(given) is None
    return own or any(environ.get(name, "").strip() for name in KEY_VARIABLES[model.provider])


def _plain_host(address: object) -> str | None:
    """Return the host of an `http://` URL on another machine; None if the value is anything else."""
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
