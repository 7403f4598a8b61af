"""Values that the tests of laws aggregate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from elfmesh.cbt.columns import normalise
from elfmesh.cbt.laws import LAWS, State, Values
from tests.cbt.sketched import taken

FLOATS = st.lists(st.none() | st.floats(), max_size=12)


INTS = st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=12)


def inputs(kind: str, values: pa.Array) -> Values:
    """What the law of this kind takes: first and last are ordered by a column with nulls and ties."""
    values = normalise(values, "x")
    if LAWS[kind].inputs < 2:
        return taken(kind, values)
    if kind == "covariance" and pa.types.is_decimal(values.type):  # a query casts them
        values = values.cast(pa.float64())
    return values, pa.array([None if len(str(v)) % 5 == 4 else len(str(v)) % 5 for v in values], pa.int64())


def lift(kind: str, values: pa.Array) -> State:
    state = LAWS[kind].lift(inputs(kind, values), np.zeros(len(values), np.int64), 1)
    LAWS[kind].check(state, 1)
    return state


def merge(kind: str, *states: State) -> State:
    state = LAWS[kind].merge(states, np.zeros(len(states), np.int64), 1)
    LAWS[kind].check(state, 1)
    return state


def result(state: State) -> Any:
    """What finish gives, as something that compares bit for bit."""
    (value,) = LAWS[state.kind].finish(state, 1).to_pylist()
    return [bits(item) for item in value] if isinstance(value, list) else bits(value)


def bits(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else np.float64(value).tobytes()
    if isinstance(value, dict):
        return {name: bits(item) for name, item in value.items()}
    return value
