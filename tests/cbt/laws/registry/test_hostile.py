"""States from outside are refused, or merge without harm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.laws import LAWS, State


def kll_parts(levels: bytes, values: list[float]) -> dict[str, Any]:
    zero = np.array([0])
    total = np.array([sum(1 << level for level in levels)])
    items = np.array(values, "<f8").tobytes()
    columns = {"levels": pa.array([levels]), "items": pa.array([items])}
    return {"n": total, "least": zero, "greatest": zero, **columns}


ONE = {"n": np.array([1]), "error": np.array([0])}
EIGHT = np.array([5], "<i8").tobytes()
NO_ORDER = {"by": np.array([0]), "rest": np.array([0])}
NULL = pa.array([None], pa.int64())
HOSTILE: list[tuple[str, pa.DataType, dict[str, Any]]] = [
    ("first", pa.int64(), {"value": pa.array([1])}),
    ("first", pa.int64(), {"seen": np.array([2]), **NO_ORDER, "value": pa.array([1])}),
    ("first", pa.int64(), {"seen": np.array([0]), **NO_ORDER, "value": pa.array([1])}),
    ("first", pa.int64(), {"seen": np.array([0]), "by": np.array([0]), "rest": np.array([1]), "value": NULL}),
    ("last", pa.int64(), {"seen": np.array([1]), **NO_ORDER, "value": pa.array(["x"])}),
    ("last", pa.int64(), {"seen": np.array([1]), **NO_ORDER, "by": pa.array([0]), "value": pa.array([1])}),
    ("distinct", pa.int64(), {"items": pa.array([b"1234567"])}),
    ("distinct", pa.int64(), {"items": pa.array([None], pa.binary())}),
    ("distinct", pa.int64(), {"items": pa.array(["text"])}),
    ("distinct", pa.null(), {"items": pa.array([EIGHT])}),
    ("distinct", pa.float64(), {"items": pa.array([np.array([-0.0]).tobytes()])}),
    ("distinct", pa.string(), {"items": pa.array([b"\x01\0\0\0\x05\0\0\0abc\0"])}),
    ("distinct", pa.string(), {"items": pa.array([b"\xff\xff\xff\xff\x03\0\0\0abc\0"])}),
    ("distinct", pa.string(), {"items": pa.array([b"\x01\0\0\0\x01\0\0\0\xff\0\0\0"])}),
    ("distinct", pa.string(), {"items": pa.array([b"\0\0\0\0"])}),
    ("distinct", pa.decimal128(3, 0), {"items": pa.array([(10**4).to_bytes(16, "little")])}),
    ("collect:3", pa.int64(), {"items": pa.array([EIGHT * 4])}),
    ("hll", pa.int64(), {"sketch": pa.array([b"\1\1\1"])}),
    ("hll", pa.int64(), {"sketch": pa.array([b"\1\1\1\0"])}),
    ("hll", pa.int64(), {"sketch": pa.array([b"\2\1\1\4\1\1\1\4"])}),
    ("hll", pa.int64(), {"sketch": pa.array([b"\x40" * 4096])}),
    ("hll", pa.int64(), {"sketch": pa.array([b"\4" * 1544])}),
    ("hll", pa.int64(), {"other": pa.array([b""])}),
    ("set:3", pa.int64(), {"items": pa.array([EIGHT * 4])}),
    ("theta:16", pa.int64(), {"items": pa.array([np.arange(1, 19).tobytes()])}),
    ("theta", pa.int64(), {"items": pa.array([np.array([2, 2]).tobytes()])}),
    ("theta", pa.int64(), {"items": pa.array([np.array([0]).tobytes()])}),
    ("theta", pa.int64(), {"items": pa.array([b"1234567"])}),
    ("variance", pa.int64(), {"limb+0": np.zeros(1, np.int64)}),
    ("covariance", pa.float64(), {"values": np.zeros(1, np.int64), "product+99": np.zeros(1, np.int64)}),
    ("covariance", pa.float64(), {"values": np.zeros(1, np.int64), "some+1": np.zeros(1, np.int64)}),
    ("covariance", pa.int64(), {"values": np.zeros(1, np.int64)}),
    ("covariance", pa.float64(), {"other+0": np.zeros(1, np.int64)}),
    ("variance", pa.int64(), {"values": np.zeros(1, np.int64), "square-1": np.zeros(1, np.int64)}),
    ("variance", pa.int64(), {"values": np.zeros(1, np.int64), "square+99": np.zeros(1, np.int64)}),
    ("kll", pa.float64(), {"n": np.array([1])}),
    (
        "kll",
        pa.float64(),
        {
            "n": np.array([3]),
            "least": np.array([0]),
            "greatest": np.array([0]),
            "levels": pa.array([b"\1"]),
            "items": pa.array([EIGHT]),
        },
    ),
    ("kll", pa.float64(), kll_parts(b"\0\0", [2.0, 1.0])),
    ("kll", pa.float64(), kll_parts(b"\1\0", [1.0, 2.0])),
    ("kll", pa.float64(), kll_parts(b"\0" * 201, np.arange(201.0).tolist())),
    ("kll", pa.float64(), kll_parts(b"\0\0", [1.0, math.nan])),
    ("frequent", pa.int64(), {**ONE, "items": pa.array([EIGHT]), "counts": pa.array([b""])}),
    ("frequent", pa.int64(), {**ONE, "items": pa.array([EIGHT]), "counts": pa.array([EIGHT])}),
    ("frequent", pa.int64(), {**ONE, "items": pa.array([EIGHT]), "counts": pa.array([bytes(8)])}),
]


@pytest.mark.parametrize(("kind", "data_type", "parts"), HOSTILE)
def test_hostile_states_are_refused(kind: str, data_type: pa.DataType, parts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        LAWS[kind].check(State(kind, data_type, parts), 1)


@given(
    st.sampled_from(["distinct", "collect", "set", "theta", "hll", "kll", "frequent"]),
    st.binary(max_size=60),
    st.data(),
)
def test_random_bytes_are_refused_or_merge_without_harm(kind: str, noise: bytes, data: st.DataObject) -> None:
    law = LAWS[kind]
    data_type = (
        pa.float64() if kind == "kll" else data.draw(st.sampled_from([pa.string(), pa.int64(), pa.float64()]))
    )
    state = law.accumulator(data_type).freeze(1)
    name = data.draw(st.sampled_from([n for n, c in state.parts.items() if isinstance(c, pa.Array)]))
    hostile = State(kind, data_type, {**state.parts, name: pa.array([noise], pa.binary())})
    try:
        law.check(hostile, 1)
    except ValueError:
        return
    merged = law.merge([hostile, hostile], np.zeros(2, np.int64), 1)
    law.check(merged, 1)
    law.finish(merged, 1)
