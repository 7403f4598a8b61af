"""A job's intervals against history, row by row."""

from __future__ import annotations

import pytest

from elfmesh.spark_bridge.history.compare import (
    DIFFERENT,
    EQUAL,
    HISTORY_ONLY,
    INCOMPLETE,
    OLDER,
    compare,
)

pytestmark = [pytest.mark.slow]


def test_a_difference_has_a_name() -> None:
    live = {
        "state": "FINAL",
        "version": 1,
        "completeness": 1.0,
        "agents": {"missing": ["web3"]},
        "counts": {},
        "rows": [{"a": 1}, {"a": 2}],
    }
    rows = {4: [{"a": 1}, {"a": 2}]}
    (same,) = compare({4: live}, rows, 0, 9, 1)
    assert (same.state, same.equal, same.differs) == (EQUAL, 2, False)
    (one,) = compare({4: live}, {4: [{"a": 2}, {"a": 1}]}, 0, 9, 1)
    assert (one.state, one.note) == (DIFFERENT, "in another order")
    (one,) = compare({4: live}, {4: [{"a": 1}, {"a": 3}]}, 0, 9, 1)
    assert (one.equal, one.live, one.history) == (1, ('{"a":2}',), ('{"a":3}',))
    (one,) = compare({4: {**live, "completeness": 0.5}}, {4: [{"a": 1}]}, 0, 9, 1)
    assert (one.state, one.note) == (INCOMPLETE, "completeness 0.5, missing web3")
    (one,) = compare({4: live}, rows, 0, 9, 2)
    assert (one.state, one.differs) == (OLDER, False)
    (one,) = compare({}, rows, 0, 9, 1)
    assert (one.state, one.differs) == (HISTORY_ONLY, True)
    assert compare({4: live}, rows, 5, 9, 1) == []
