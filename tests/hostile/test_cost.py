"""The measure itself: it must find what it is there for."""

from __future__ import annotations

import re

import pytest

from tests.hostile.cost import TooSlow, assert_linear, calls, cut_off


def test_calls_are_counted_the_same_each_time() -> None:
    def work() -> None:
        for _ in range(10):
            len("")

    assert calls(work) == calls(work) == pytest.approx(12, abs=2)


def test_calls_that_grow_with_the_square_are_found() -> None:
    assert_linear(lambda size: [len("") for _ in range(size)], 1_000)
    with pytest.raises(AssertionError, match="doubled"):
        assert_linear(lambda size: [len("") for _ in range(size * size)], 20, hang_size=1)


def test_one_call_that_takes_long_is_cut_off() -> None:
    with pytest.raises(TooSlow), cut_off(0.2):
        re.compile("(?:a|ab)*c").search("ab" * 100_000)
