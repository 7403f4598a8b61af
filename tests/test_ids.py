from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh import ids

raw_ids = st.binary(min_size=ids.ID_BYTES, max_size=ids.ID_BYTES)


@given(raw_ids, raw_ids, raw_ids)
def test_distance_is_the_xor_metric(a: bytes, b: bytes, c: bytes) -> None:
    assert (ids.distance(a, b) == 0) == (a == b)
    assert ids.distance(a, b) == ids.distance(b, a)
    assert ids.distance(a, c) == ids.distance(a, b) ^ ids.distance(b, c)


def test_names_with_moved_boundaries_have_different_ids() -> None:
    assert ids.job_id("ab", "c") != ids.job_id("a", "bc")
    assert ids.stream_id("x") != ids.job_id("x", "")
    assert len({ids.partition_tree(ids.job_id("j", "me"), p) for p in range(16)}) == 16


@pytest.mark.parametrize("bad", [b"", b"x" * 19, b"x" * 21, "x" * 20, None])
def test_check_id_refuses_what_is_no_id(bad: object) -> None:
    with pytest.raises(ValueError, match="20 bytes"):
        ids.check_id(bad)  # type: ignore[arg-type]  # the point of the test
