"""How far rows that lack a part of the input are from those of the whole input."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.control.jobs import tentative_accuracy
from elfmesh.control.jobs.tentative_accuracy import TentativeAccuracy, compared

WHOLE = [("a", 10), ("b", 6), ("c", 4)]


def table(rows: list[tuple[Any, Any]], kind: pa.DataType | None = None) -> pa.Table:
    keys, numbers = ([row[at] for row in rows] for at in (0, 1))
    return pa.table({"k": pa.array(keys, kind or pa.string()), "n": pa.array(numbers, pa.float64())})


@pytest.mark.parametrize(
    ("some", "whole", "stay", "error"),
    [
        (WHOLE, WHOLE, 3, 0.0),
        (WHOLE[:2], WHOLE, 2, 4 / 20),
        ([("a", 5), ("b", 6), ("d", 9)], WHOLE, 2, (5 + 4) / 20),
        ([("a", 15)], WHOLE, 1, (5 + 6 + 4) / 20),
        ([], WHOLE, 0, 1.0),
        (WHOLE, [], 0, None),
        ([("a", 1)], [("a", 0)], 1, None),
        ([("a", None)], [("a", float("nan"))], 1, None),
        ([("a", 2)], [("a", 2), ("a", 6)], 1, 6 / 8),
        ([(None, 2)], [(None, 2)], 1, 0.0),
    ],
)
def test_rows_are_compared_by_their_keys(
    some: list[tuple[Any, Any]], whole: list[tuple[Any, Any]], stay: int, error: float | None
) -> None:
    for keys in (("k",), None):
        found = compared(table(some), table(whole), keys)
        assert found is not None
        assert (found.rows, found.stay, len(found.gone)) == (len(whole), stay, len(whole) - stay)
        assert found.error == (None if error is None else pytest.approx(error))
        assert found.overlap == (stay / len(whole) if whole else 1.0)


def test_a_group_key_may_be_a_number() -> None:
    some, whole = (table(rows, pa.int64()) for rows in ([(200, 8)], [(200, 10), (404, 10)]))
    found = compared(some, whole, ("k",))
    assert found is not None
    assert found.gone == ({"k": 404},)
    assert found.error == pytest.approx(0.6)
    found = compared(some, whole, None)
    assert found is not None
    assert (found.stay, found.error) == (0, None), "without keys, both columns are values, so all are keys"


def test_one_row_without_keys_stays() -> None:
    found = compared(pa.table({"n": [6]}), pa.table({"n": [8]}), ())
    assert found is not None
    assert (found.overlap, found.error) == (1.0, 0.25)
    found = compared(pa.table({}), pa.table({"n": [8]}), ())
    assert found is not None
    assert (found.overlap, found.error) == (0.0, 1.0)


@pytest.mark.parametrize("keys", [("k",), (), None])
def test_sums_that_no_number_represents_have_no_error(keys: tuple[str, ...] | None) -> None:
    whole = table([("a", 1.7e308), ("a", 1.7e308), ("b", -1.7e308)])
    found = compared(table([("a", -1.7e308)]), whole, keys)
    assert found is not None
    assert (found.rows, found.error) == (3, None)


def test_a_value_that_is_no_number_counts_as_0() -> None:
    found = compared(pa.table({"k": ["a"], "n": [[1, 2]]}), table([("a", 2)]), ("k",))
    assert found is not None
    assert (found.stay, found.error) == (1, 1.0)


def test_results_with_many_rows_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tentative_accuracy, "ROWS_MAX", 2)
    assert compared(table(WHOLE[:1]), table(WHOLE), ("k",)) is None


ROWS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 100))


@given(whole=ROWS, some=ROWS)
def test_fewer_keys_never_have_more_in_common(whole: dict[str, int], some: dict[str, int]) -> None:
    found = compared(table([*some.items()]), table([*whole.items()]), ("k",))
    assert found is not None
    assert found.stay == len(whole.keys() & some.keys())
    assert {row["k"] for row in found.gone} == whole.keys() - some.keys()
    assert 0 <= found.overlap <= 1
    if some:
        fewer = compared(table([*some.items()][1:]), table([*whole.items()]), ("k",))
        assert fewer is not None
        assert fewer.overlap <= found.overlap


def test_means_are_by_fidelity() -> None:
    accuracy = TentativeAccuracy()
    assert (accuracy.describe(), accuracy.overlap) == ([], None)
    for fidelity, overlap, error in [(0.51, 0.8, 0.2), (0.54, 1.0, None), (0.8, 0.9, 0.1), (1.0, 1.0, 0.0)]:
        accuracy.add(fidelity, overlap, error)
    assert accuracy.describe() == [
        {"fidelity": 0.5, "records": 2, "overlap": 0.9, "error": 0.2},
        {"fidelity": 0.8, "records": 1, "overlap": 0.9, "error": 0.1},
        {"fidelity": 0.95, "records": 1, "overlap": 1.0, "error": 0.0},
    ]
    assert accuracy.overlap == pytest.approx(0.925)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 9) | st.none()), min_size=1))
def test_a_mean_is_between_what_it_is_made_of(given: list[tuple[float, float, float | None]]) -> None:
    accuracy = TentativeAccuracy()
    for each in given:
        accuracy.add(*each)
    assert accuracy.overlap is not None
    overlaps = [overlap for _, overlap, _ in given]
    assert min(overlaps) - 1e-9 <= accuracy.overlap <= max(overlaps) + 1e-9
    found = accuracy.describe()
    assert sum(each["records"] for each in found) == len(given)
    assert all(0 <= each["fidelity"] <= 0.95 for each in found)


def test_the_newest_comparisons_weigh_most() -> None:
    accuracy = TentativeAccuracy()
    for overlap in [1.0] * 50 + [0.5] * 20:
        accuracy.add(0.7, overlap, None)
    assert accuracy.overlap == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(("here", "there"), [([1e308, 1e308], [1e308]), ([-1e308], [1e308])])
def test_sums_that_no_float_holds_have_no_error(here: list[float], there: list[float]) -> None:
    """The rows of the interval must not fail because of their comparison."""
    some, whole = (pa.table({"k": ["a"] * len(each), "v": each}) for each in (here, there))
    for one, other in ((some, whole), (whole, some)):
        found = compared(one, other, ("k",))
        assert found is not None
        assert found.error is None
