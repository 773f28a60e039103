"""Reads the numeric axes of `evaluations.optimizer`: settings of the agent, and the values to try for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from msgspec import Struct

from holodeck_action.extensions.race.variants import Value, read_setting
from holodeck_action.run.loading import LoadedSuite, with_lines
from holodeck_action.suite.configuration_errors import ConfigurationError, locate_problem
from holodeck_action.suite.model.optimizer import NumericAxis, Optimizer
from holodeck_action.suite.yaml.document import Document, MarkedList, Path
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import one_line

MOST_TRIALS = 10
"""Default maximum number of values of a range, as in HoloDeck."""
_MOST_VALUES = 31
"""Maximum number of new values of an axis, so that they fit into a race with the present value."""
_BLOCK = ("evaluations", "optimizer")
_SELECTED_TOOL = lazy_pattern(r"tools\[name=([^\]]+)\]\.")
_TEXTUAL = (
    "is a textual axis, which is not optimized; choose numeric axes with --axis PATH, or compare texts with "
    "holodeck-action race --vary instructions=FILE"
)
_STEPS = (Decimal(1), Decimal(2), Decimal("2.5"), Decimal(5), Decimal(10))


class Axis(Struct, frozen=True):
    """A setting that is optimized.

    Attributes:
        path: the setting as `evaluations.optimizer` names it, such as `tools[name=handbook].top_k`.
        key: the setting as a variant of a race names it, such as `tools.handbook.top_k`.
        place: the setting's path in agent.yaml.
        present: its value in the suite; None if it has none.
        values: the other values to try.
    """

    path: str
    key: str
    place: Path
    present: Value | None
    values: tuple[Value, ...]


def read_axes(
    loaded: LoadedSuite,
    optimizer: Optimizer,
    document: Document,
    display_folder: str,
    chosen: Sequence[str],
    most_trials: int | None,
) -> tuple[Axis, ...]:
    """Return the numeric axes of a suite.

    Args:
        loaded: the suite.
        optimizer: its `evaluations.optimizer`.
        document: its agent.yaml.
        display_folder: path of the suite's folder relative to the working folder.
        chosen: paths of the axes to read; empty to read all.
        most_trials: maximum number of values of an axis; None for `numeric_phase.max_trials`, or else 10.

    Raises:
        ConfigurationError: the suite has no axis, or a chosen axis does not exist, is textual, or has invalid values.
    """
    axes = optimizer.axes
    textual = () if axes is None else axes.textual
    numeric = () if axes is None else axes.numeric
    paths = [*(axis.path for axis in numeric), *(axis.path for axis in textual)]
    unknown = [path for path in chosen if path not in paths]
    if unknown or not paths:
        listed = ", ".join(one_line(path, 100) for path in paths) or "none"
        missing = f"--axis {one_line(unknown[0], 100)}: no such axis" if unknown else "there is no axis to optimize"
        raise ConfigurationError([f"{missing} in evaluations.optimizer.axes of {document.file} (axes: {listed})"])
    problems = [
        document.problem((*_BLOCK, "axes", "textual", at, "path"), f"{one_line(axis.path, 100)} {_TEXTUAL}")
        for at, axis in enumerate(textual)
        if not chosen or axis.path in chosen
    ]
    most = most_trials or (optimizer.numeric_phase and optimizer.numeric_phase.max_trials) or MOST_TRIALS
    found: list[Axis] = []
    for at, axis in enumerate(numeric):
        if chosen and axis.path not in chosen:
            continue
        place = (*_BLOCK, "axes", "numeric", at)
        read = _read_axis(axis, loaded, document, min(most, _MOST_VALUES))
        if isinstance(read, str):
            problems.append(document.problem((*place, "range"), read))
        elif any(other.key == read.key for other in found):
            problems.append(document.problem((*place, "path"), f"{axis.path} is named twice; leave out one of them"))
        else:
            found.append(read)
    if problems:
        located = [locate_problem(problem, loaded.suite.folder, display_folder) for problem in problems]
        raise ConfigurationError(with_lines(located, [loaded]))
    return tuple(found)


def _read_axis(axis: NumericAxis, loaded: LoadedSuite, document: Document, most: int) -> Axis | str:
    """Return an axis, or a message if its values cannot be used."""
    key = _SELECTED_TOOL.sub(r"tools.\1.", axis.path)
    if "." not in key:
        return f"{one_line(axis.path, 100)} is not a path in agent.yaml, such as model.temperature"
    present = read_setting(loaded.suite.agent, key)
    values = _values(axis, most)
    if isinstance(values, str):
        return values
    others = tuple(value for value in values if not same_value(value, present))
    if not others:
        return "no value differs from the present one; add another value"
    return Axis(axis.path, key, _place(key, document), present, others)


def same_value(one: Value | None, other: Value | None) -> bool:
    """Return whether two values of a setting are equal; true and 1 are not."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _values(axis: NumericAxis, most: int) -> Sequence[Value] | str:
    given = axis.range
    if axis.type == "categorical":
        if not given or not all(isinstance(value, Value) for value in given):
            return "must be a list of texts, numbers, true or false"
        if len(given) > most:
            return f"has {len(given)} values, but at most {most} are tried; raise numeric_phase.max_trials (at most 31)"
        return tuple(given)
    if len(given) != 2 or not all(_is_number(value, whole=axis.type == "int") for value in given):
        return f"must be [low, high] with two {'whole ' if axis.type == 'int' else ''}numbers, such as [0, 1]"
    low, high = given
    if low >= high:
        return f"must be [low, high], and {low} is not below {high}"
    return spread(low, high, most, whole=axis.type == "int")


def _is_number(value: Any, *, whole: bool) -> bool:
    return isinstance(value, int if whole else int | float) and not isinstance(value, bool) and math.isfinite(value)


def spread(low: float, high: float, most: int, *, whole: bool) -> tuple[Value, ...]:
    """Return at most `most` values from `low` to `high`, both included, with a step of 1, 2, 2.5 or 5 · 10ⁿ.

    The last step may be shorter. If `most` is 1, the only value is the middle.
    """
    first, last = Decimal(repr(low)), Decimal(repr(high))
    kind: type[Value] = int if whole else float
    if most == 1:
        return (kind((first + last) / 2),)
    least = (last - first) / (most - 1)
    least = max(least, Decimal(1)) if whole else least
    power = Decimal(10) ** least.adjusted()
    step = next(power * each for each in _STEPS if power * each >= least and not (whole and power * each % 1))
    values = [first + at * step for at in range(int((last - first) / step) + 1)]
    return tuple(kind(value) for value in (values if values[-1] == last else [*values, last]))


def _place(key: str, document: Document) -> Path:
    """Return the path in agent.yaml of a setting, given its key in a variant; a tool's name becomes its list index."""
    root, *rest = key.split(".")
    tools = document.root.get("tools") if root == "tools" else None
    if not rest or not isinstance(tools, MarkedList):
        return (root, *rest)
    names = [tool.get("name") if isinstance(tool, dict) else None for tool in tools]
    return (root, names.index(rest[0]), *rest[1:]) if rest[0] in names else (root, *rest)
