"""What all machines share: the next of several deadlines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.machine import earliest


@pytest.mark.parametrize(
    ("times", "first"),
    [
        ((), None),
        ((None,), None),
        ((None, 3.0), 3.0),
        ((3.0, None, 1.0), 1.0),
        ((0.0, 1.0), 0.0),
        ((-1, 0, None), -1),
    ],
)
def test_a_time_that_is_none_is_never_first(times: tuple[float | None, ...], first: float | None) -> None:
    assert earliest(*times) == first


@given(st.lists(st.none() | st.integers()))
def test_the_first_is_the_least(times: list[int | None]) -> None:
    assert earliest(*times) == min((at for at in times if at is not None), default=None)
