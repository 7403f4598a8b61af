"""The value of the record that wins: by its words first, then the least or greatest value of any type."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.columns import normalise
from elfmesh.cbt.laws.records import Records

VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float64(), st.floats(allow_nan=False)),
    "text": (pa.string(), st.text(max_size=12)),
    "decimal": (pa.decimal128(38, 2), st.integers(-(10**30), 10**30).map(lambda cents: Decimal(cents) / 100)),
    "bool": (pa.bool_(), st.booleans()),
}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("greatest", [False, True])
@given(data=st.data())
def test_the_least_or_the_greatest_value_wins(kind: str, greatest: bool, data: st.DataObject) -> None:
    data_type, values = VALUES[kind]
    rows = data.draw(st.lists(st.tuples(st.integers(0, 2), values), max_size=10))
    records = Records(data_type, greatest)
    for at in range(0, len(rows), 3):
        owners, given_ = zip(*rows[at : at + 3], strict=True)
        records.add(normalise(pa.array(given_, data_type), "x"), np.array(owners), 3)
    choose = max if greatest else min
    groups = [[value for owner, value in rows if owner == group] for group in range(3)]
    assert records.column(3).to_pylist() == [choose(group) if group else None for group in groups]
    assert records.found(3).tolist() == [bool(group) for group in groups]


@given(st.lists(st.tuples(st.integers(0, 3), st.none() | st.integers(-3, 3)), min_size=1, max_size=8))
def test_words_decide_first_and_null_loses_among_equal_ones(rows: list[tuple[int, int | None]]) -> None:
    records = Records(pa.int64(), False, words=1, nulls=True)
    words, values = zip(*rows, strict=True)
    column = pa.array(values, pa.int64())
    records.add(column, np.zeros(len(rows), np.int64), 1, [np.array(words)])
    word, is_null, value = min((word, value is None, value or 0) for word, value in rows)
    assert records.column(1).to_pylist() == [None if is_null else value]
    assert records.words(1)[0].tolist() == [word]


def test_values_of_no_type_are_null_and_a_cleared_one_has_no_winner() -> None:
    nothing = Records(pa.null(), False)
    assert nothing.column(2).to_pylist() == [None, None]
    records = Records(pa.string(), True)
    records.add(pa.array(["a"]), np.array([0]), 1)
    records.clear()
    assert (records.column(1).to_pylist(), records.groups) == ([None], 0)
