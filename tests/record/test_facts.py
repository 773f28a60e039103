"""Facts: a value, known to be none, or unknown."""

from __future__ import annotations

from typing import Any

import pytest

from holodeck_action.record.facts import (
    Fact,
    Known,
    Nothing,
    Unknown,
    items_of,
    items_or_none,
    join_facts,
    list_fact,
    measured_fact,
)


@pytest.mark.parametrize("fact", [Known((1,)), Nothing(), Unknown("nobody told")])
def test_a_fact_is_neither_true_nor_false_and_has_no_items(fact: Any) -> None:
    with pytest.raises(TypeError, match="say what happens if it is unknown"):
        bool(fact)
    with pytest.raises(TypeError):
        len(fact)
    with pytest.raises(TypeError):
        iter(fact)


def test_unknown_and_none_stay_apart_through_a_conversation_and_a_file() -> None:
    unknown: Fact[tuple[int, ...]] = list_fact(None)
    none: Fact[tuple[int, ...]] = list_fact(())
    one = list_fact((1,))
    assert (items_or_none(unknown), items_or_none(none), items_or_none(one)) == (None, (), (1,))
    assert isinstance(items_of(unknown), Unknown)
    assert items_of(none) == ()
    assert items_or_none(join_facts(join_facts(none, one), one)) == (1, 1)
    assert items_or_none(join_facts(none, none)) == ()
    for before, more in ((unknown, one), (one, unknown), (unknown, none), (none, unknown)):
        assert isinstance(join_facts(before, more), Unknown)
    assert (measured_fact(0), isinstance(measured_fact(None), Unknown)) == (Known(0), True)
