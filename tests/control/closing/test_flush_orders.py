"""Orders to wait no longer: their pace, what they cover, and the time that what was held back has."""

from __future__ import annotations

import pytest

from elfmesh.control.closing.flush_orders import HASTEN_S, NEVER, FlushOrders


def orders(deadline_s: float = 10.0, lead_s: float = 4.0) -> tuple[FlushOrders, list[int]]:
    given: list[int] = []
    return FlushOrders(given.append, deadline_s, lead_s), given


@pytest.mark.parametrize(
    ("deadline_s", "lead_s", "pause_s"), [(10, 4, 1), (10, 0, 10), (0.1, 0, HASTEN_S), (0.1, 8, 2)]
)
def test_an_order_is_given_unless_the_last_is_fresh(deadline_s: float, lead_s: float, pause_s: float) -> None:
    flush, given = orders(deadline_s, lead_s)
    flush.now(3, 100.0)
    flush.now(4, 100.0 + pause_s - 0.01)
    assert given == [3]
    flush.now(5, 100.0 + pause_s)
    assert given == [3, 5]


def test_an_order_covers_what_is_below_its_end() -> None:
    flush, _ = orders()
    assert flush.uncovered(2) == 2
    flush.now(5, 0.0)
    assert [flush.uncovered(at) for at in (2, 5, 7)] == [5, 5, 7]


def test_an_order_goes_ahead_of_the_deadline_of_the_oldest_by_the_lead() -> None:
    flush, given = orders(10.0, 4.0)
    assert flush.ahead(3, 100.0, 105.9) == 106.0
    assert given == []
    assert flush.ahead(3, 100.0, 106.0) == NEVER
    assert given == [3]
    assert flush.ahead(4, 100.0, 106.5) == 107.0, "not before the pause is over"
    assert flush.ahead(4, None, 200.0) == NEVER
    assert orders(10.0, 0.0)[0].ahead(3, 100.0, 200.0) == NEVER


def test_what_was_held_back_has_its_time_from_the_first_order_that_covers_it() -> None:
    flush, _ = orders(10.0, 4.0)
    flush.now(3, 100.0)
    flush.now(5, 102.0)
    assert [flush.waited(at, 104.0) for at in (2, 3, 5)] == [True, False, False]
    assert [flush.waited(at, 106.0) for at in (2, 4, 5)] == [True, True, False]
    flush.drop_below(3)
    assert flush.waited(2, 105.0) is False, "the order of 100 is dropped, that of 102 covers it"
    assert orders(10.0, 0.0)[0].waited(9, 0.0), "without a lead there is nothing to wait for"
