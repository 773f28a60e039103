"""Facts: a value, known to be none, or unknown."""

from __future__ import annotations

from typing import Any

import pytest

from holodeck_action.record.facts import Fact, Known, Nothing, Unknown, items_of, joined, listed, measured, stored


@pytest.mark.parametrize("fact", [Known((1,)), Nothing(), Unknown("nobody told")])
def test_a_fact_is_neither_true_nor_false_and_has_no_items(fact: Any) -> None:
    with pytest.raises(TypeError, match="say what happens when it is unknown"):
        bool(fact)
    with pytest.raises(TypeError):
        len(fact)
    with pytest.raises(TypeError):
        iter(fact)


def test_unknown_and_none_stay_apart_through_a_conversation_and_a_file() -> None:
    unknown: Fact[tuple[int, ...]] = listed(None)
    none: Fact[tuple[int, ...]] = listed(())
    one = listed((1,))
    assert (stored(unknown), stored(none), stored(one)) == (None, (), (1,))
    assert isinstance(items_of(unknown), Unknown)
    assert items_of(none) == ()
    assert stored(joined(joined(none, one), one)) == (1, 1)
    assert stored(joined(none, none)) == ()
    for before, more in ((unknown, one), (one, unknown), (unknown, none), (none, unknown)):
        assert isinstance(joined(before, more), Unknown)
    assert (measured(0), isinstance(measured(None), Unknown)) == (Known(0), True)
