"""Which sequence numbers of an era were received: a window that forgets what is too old to be replayed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elfmesh.srt.multicast_log import LOG_MAX, ReceivedNumbers


def test_numbers_in_order_are_one_bound() -> None:
    window = ReceivedNumbers(0)
    for seq in (1, 2, 3):
        window.add(seq)
    assert (window.upto, window.beyond, window.newest) == (3, {}, 3)


def test_a_number_behind_a_gap_waits_for_the_gap() -> None:
    window = ReceivedNumbers(0)
    window.add(3)
    assert (window.upto, window.newest) == (0, 3)
    assert [window.has(seq) for seq in (0, 1, 2, 3, 4)] == [True, False, False, True, False]
    window.add(2)
    window.add(1)
    assert (window.upto, window.beyond) == (3, {})


def test_a_gap_that_no_agent_replays_any_more_counts_as_received() -> None:
    window = ReceivedNumbers(0)
    window.add(LOG_MAX + 5)
    assert window.has(5)
    assert not window.has(6)


def test_a_skip_never_goes_back() -> None:
    window = ReceivedNumbers(7)
    window.skip_to(3)
    assert window.upto == 7
    window.add(9)
    window.skip_to(8)
    assert (window.upto, window.beyond) == (9, {})


@given(st.lists(st.integers(1, 3 * LOG_MAX), max_size=60))
def test_a_received_number_stays_received_and_the_window_is_bounded(numbers: list[int]) -> None:
    window = ReceivedNumbers(0)
    for received, seq in enumerate(numbers, 1):
        window.add(seq)
        assert all(window.has(each) for each in numbers[:received])
        assert window.newest == max(numbers[:received])
        assert len(window.beyond) < LOG_MAX
        missed = set(range(window.newest - LOG_MAX + 1, window.newest + 1)) - set(numbers[:received])
        assert not any(window.has(each) for each in missed if each > 0)
