"""What `make test` leaves out is left out, and `make test-all` runs it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exhaustive import ATTRIBUTE, EXAMPLES_SHARE, few


@settings(max_examples=100)
@given(st.integers())
def test_make_test_tries_a_share_of_the_examples(pytestconfig: pytest.Config, number: int) -> None:
    share = 1 if pytestconfig.getoption("hypothesis_profile") == "exhaustive" else EXAMPLES_SHARE
    mine = getattr(test_make_test_tries_a_share_of_the_examples, ATTRIBUTE)
    assert mine.max_examples == 100 // share


def test_the_first_values_run_always_and_the_others_are_marked() -> None:
    first, second, third = few("abc", 2)
    assert (first, second, third.values) == ("a", "b", ("c",))
    assert [mark.name for mark in third.marks] == ["exhaustive"]


def test_the_last_values_are_left_to_the_night() -> None:
    first, second, third = few("abc", 1, 1)
    assert (first, second.values, third.values) == ("a", ("b",), ("c",))
    assert [mark.name for mark in second.marks] == ["exhaustive"]
    assert [mark.name for mark in third.marks] == ["exhaustive", "nightly"]
