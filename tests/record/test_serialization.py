"""What values of any kind are in JSON."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from holodeck_action.record.record import ToolInvocation, Usage
from holodeck_action.record.serialization import JSON_ERRORS, as_read, decode_problem, from_json, to_json, to_plain
from holodeck_action.suite.model.policy import Baseline


class Name(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float64(0.5), 0.5),
        (Name("a"), "a"),
        ({Name("a"): Name("b")}, {"a": "b"}),
        ({3: 4}, {"3": 4}),
        (MappingProxyType({"a": (1,)}), {"a": [1]}),
        (range(3), [0, 1, 2]),
        (
            Baseline(margin=0.25),
            {**Baseline().model_dump(mode="json", exclude={"on_loosened", "confirm"}), "margin": 0.25},
        ),
        (float("nan"), None),
        (Usage(cost_usd=0.0), {"prompt_tokens": None, "completion_tokens": None, "cost_usd": 0.0}),
    ],
)
def test_values_of_libraries_are_written_as_what_they_stand_for(value: Any, expected: Any) -> None:
    held = ToolInvocation("tool", {"argument": value}, value)
    written = json.loads(to_json(held))
    assert (written["result"], written["args"]) == (expected, {"argument": expected})
    if expected is not None:
        assert json.loads(json.dumps(to_plain(held))) == written
    assert repr(as_read(held, ToolInvocation)) == repr(from_json(to_json(held), ToolInvocation))


def test_what_no_json_has_is_refused() -> None:
    with pytest.raises(TypeError, match="no JSON for object"):
        to_json({"a": object()})
    with pytest.raises(TypeError, match="no JSON for tuple"):
        to_json({(1, 2): 3})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"args": {}}', "missing required field name"),
        ('{"name": 1}', "name: expected str, got int"),
        ('{"name": "a", "args": []}', "args: expected object, got array"),
        ('{"name": "a"', "Input data was truncated"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(JSON_ERRORS) as raised:
        from_json(text, ToolInvocation)
    assert decode_problem(raised.value) == problem
