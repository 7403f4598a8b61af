"""The violations of ASSUME are those of its definition, whatever the order and the blocks of the records."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.errors import DataError, QueryError
from elfmesh.ql import parse
from elfmesh.ql.engine import assumed
from elfmesh.ql.engine.assumed import AssumptionChecker, OpenAssumptions
from elfmesh.ql.engine.block import BlockRows

HEAD = "CREATE JOB a.b EVERY '1 s' ASSUME ({}) AS SELECT u, count(*) AS n FROM log GROUP BY u"
ASSUMED = "a -> c, (a, b) -> c, x >= 0, x <= 5"

Record = tuple[int, int | None, str | None, float | None, int | None]
"""Pane, a, b, c, x."""

values = st.one_of(st.none(), st.integers(0, 2))
records = st.lists(
    st.tuples(
        st.integers(0, 3),
        values,
        st.one_of(st.none(), st.sampled_from("xy")),
        st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0])),
        st.one_of(st.none(), st.integers(-2, 7)),
    ),
    max_size=30,
)


def brute_force(inside: list[Record]) -> int:
    """By the definition: values beyond a bound, and further values on the right of a dependency."""
    found = sum(each[4] is not None and not 0 <= each[4] <= 5 for each in inside)
    for keys in ([1], [1, 2]):
        seen: dict[tuple[Any, ...], set[float]] = {}
        for each in inside:
            left, right = tuple(each[at] for at in keys), each[3]
            if right is not None and None not in left:
                seen.setdefault(left, set()).add(right)
        found += sum(len(rights) - 1 for rights in seen.values())
    return found


def block(rows: list[Record]) -> BlockRows:
    columns = {
        "a": pa.array([each[1] for each in rows], pa.int64()),
        "b": pa.array([each[2] for each in rows], pa.string()),
        "c": pa.array([each[3] for each in rows], pa.float64()),
        "x": pa.array([each[4] for each in rows], pa.int64()),
    }
    return BlockRows(columns, len(rows))


def held(rows: list[Record], cuts: list[int], clause: str = ASSUMED) -> OpenAssumptions:
    checker = AssumptionChecker(parse(HEAD.format(clause)))
    state = OpenAssumptions(len(checker.dependencies))
    edges = [0, *sorted(cut % (len(rows) + 1) for cut in cuts), len(rows)]
    for begin, end in pairwise(edges):
        part = rows[begin:end]
        checked = checker.check(block(part))
        assert checked is not None
        state.add(checked, np.array([each[0] for each in part], np.int64), pytest.fail)
    return state


@given(records, st.lists(st.integers(0, 30), max_size=4), st.randoms())
def test_violations_are_counted_by_their_definition(rows: list[Record], cuts: list[int], rng: Any) -> None:
    first = held(rows, [])
    rng.shuffle(rows)
    state = held(rows, cuts)
    for panes in ([0], [1], [2, 3], [0, 1, 2, 3], []):
        wanted = brute_force([each for each in rows if each[0] in panes])
        assert state.broken(panes) == first.broken(panes) == wanted


@given(records)
def test_closed_panes_are_forgotten_and_counted(rows: list[Record]) -> None:
    state = held(rows, [10])
    state.close_below(2)
    assert state.closed == sum(brute_force([each for each in rows if each[0] == pane]) for pane in (0, 1))
    assert state.broken([0, 1]) == 0
    assert state.broken([2, 3]) == brute_force([each for each in rows if each[0] > 1])
    state.close_below(4)
    assert state.nbytes == 0


def checked(clause: str, column: pa.Array) -> list[int]:
    checker = AssumptionChecker(parse(HEAD.format(clause)))
    found = checker.check(BlockRows({"x": column}, len(column)))
    assert found is not None
    beyond: list[int] = found.beyond.tolist()
    return beyond


@pytest.mark.parametrize(
    ("clause", "column", "beyond"),
    [
        ("x >= 0", pa.array([1, -1, None, 0]), [0, 1, 0, 0]),
        ("x >= 0", pa.array(["1", "-0.5", "text", None]), [0, 1, 0, 0]),
        ("x >= 0", pa.array([float("nan"), -0.0, -1e-300, float("-inf")]), [0, 0, 1, 1]),
        ("x <= 1.5", pa.array([1, 2, None]), [0, 1, 0]),
        ("x <= 1.5", pa.array([float("nan"), float("inf"), 1.5]), [1, 1, 0]),
        ("x >= 0, x <= 5", pa.array([-1, 6, 3]), [1, 1, 0]),
        ("x >= 0", pa.nulls(2), [0, 0]),
        ("y >= 0", pa.array([-1, -2]), [0, 0]),
    ],
)
def test_a_bound_is_broken_by_the_number_that_sum_would_add(
    clause: str, column: pa.Array, beyond: list[int]
) -> None:
    assert checked(clause, column) == beyond


def test_a_column_without_numbers_is_refused_at_the_assumption() -> None:
    with pytest.raises(QueryError, match="ASSUME compares numbers, and x is of type BOOLEAN") as caught:
        checked("x >= 0", pa.array([True]))
    assert (caught.value.line, caught.value.column) == (1, 36)


def test_lists_are_not_compared() -> None:
    with pytest.raises(DataError):
        checked("x -> y", pa.array([[1]]))


def test_equal_numbers_of_different_blocks_are_equal() -> None:
    checker = AssumptionChecker(parse(HEAD.format("a -> x")))
    state = OpenAssumptions(1)
    for column in (pa.array([1, 2]), pa.array([1.0, 2.0]), pa.array([1.0, 2.5])):
        found = checker.check(BlockRows({"a": pa.array([7, 8]), "x": column}, 2))
        assert found is not None
        state.add(found, None, pytest.fail)
    assert state.broken([0]) == 1


def test_a_text_without_assumptions_is_not_checked() -> None:
    checker = AssumptionChecker(parse("SELECT u FROM log"))
    assert checker.check(BlockRows({"x": pa.array([1])}, 1)) is None
    assert OpenAssumptions(0).broken([0]) == 0


def test_pairs_beyond_the_limit_are_not_checked_and_stated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assumed, "PAIRS_MAX", 4)
    monkeypatch.setattr(assumed, "_MERGED_MIN", 1)
    checker, notes = AssumptionChecker(parse(HEAD.format("a -> x"))), list[str]()
    state = OpenAssumptions(1)
    for at in range(4):
        column = pa.array([at, at + 100])
        found = checker.check(BlockRows({"a": pa.array([1, 2]), "x": column}, 2))
        assert found is not None
        state.add(found, None, notes.append)
    assert state.broken([0]) == 2
    assert len(notes) == 1
    assert "4 pairs" in notes[0]


@given(records, st.integers(2, 30))
def test_merging_early_or_late_makes_no_difference(rows: list[Record], least: int) -> None:
    wanted = held(rows, []).broken([0, 1, 2, 3])
    before = assumed._MERGED_MIN
    assumed._MERGED_MIN = least
    try:
        assert held(rows, [3, 7, 12]).broken([0, 1, 2, 3]) == wanted
    finally:
        assumed._MERGED_MIN = before
