from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from elfmesh.local.prefetch import ahead
from tests.patience import PATIENCE_S


def numbers(count: int, made: list[int], closed: list[bool], fail_at: int = -1) -> Iterator[int]:
    try:
        for number in range(count):
            if number == fail_at:
                raise ValueError(f"no {number}")
            made.append(number)
            yield number
    finally:
        closed.append(True)


@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_the_same_items_come_out(count: int) -> None:
    made: list[int] = []
    closed: list[bool] = []
    assert list(ahead(numbers(count, made, closed))) == list(range(count))
    assert closed == [True]


def until_made(made: list[int], count: int) -> None:
    """Wait for the thread's turn, however busy the machine is, then for a moment to make too many."""
    end = time.monotonic() + PATIENCE_S
    while len(made) < count and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.02)


def test_no_more_is_made_than_may_wait() -> None:
    made: list[int] = []
    items = ahead(numbers(100, made, []), depth=2)
    try:
        assert next(items) == 0
        until_made(made, 3)
        assert len(made) == 3
        assert next(items) == 1
        until_made(made, 4)
        assert len(made) == 4
    finally:
        items.close()


@pytest.mark.parametrize("fail_at", [0, 1, 5])
def test_an_error_comes_out_where_its_item_would_have(fail_at: int) -> None:
    items = ahead(numbers(10, [], [], fail_at))
    assert [next(items) for _ in range(fail_at)] == list(range(fail_at))
    with pytest.raises(ValueError, match=f"no {fail_at}"):
        next(items)


def test_closing_early_ends_the_thread_and_closes_the_items() -> None:
    closed: list[bool] = []
    items = ahead(numbers(1000, [], closed))
    assert [next(items), next(items)] == [0, 1]
    items.close()
    assert closed == [True]
    assert not [thread for thread in threading.enumerate() if thread.name == "elf-ahead"]
