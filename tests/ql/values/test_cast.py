"""CAST as Spark does it with ANSI off: what is read, what is cut, what is null."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.ql.values.cast import cast, castable, format_double, saturate
from elfmesh.ql.values.types import BIGINT, BINARY, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, VOID

NOON = datetime(2024, 2, 28, 12, tzinfo=UTC)
MAX, MIN = 2**63 - 1, -(2**63)


@pytest.mark.parametrize(
    ("kind", "target", "pairs"),
    [
        (STRING, "BIGINT", {
            " 12 ": 12, "+7": 7, "-007.9": -7, ".5": 0, "-": None, "x": None, "": None,
            "9223372036854775807": MAX, "-9223372036854775808": MIN, "9223372036854775808": None,
            "000000000000000000000001": 1, "1e3": None,
        }),
        (STRING, "TINYINT", {"127": 127, "128": None, "-128": -128}),
        (STRING, "DOUBLE", {
            "1.5": 1.5, " 2e3 ": 2000.0, "1.5d": 1.5, "+.5": 0.5, "inf": float("inf"),
            "-Infinity": -float("inf"),
            "--inf": None, "1e400": float("inf"), "x": None, "1,5": None,
        }),
        (STRING, "BOOLEAN", {" TRUE ": True, "y": True, "1": True, "no": False, "f": False, "on": None}),
        (STRING, "DATE", {
            "2024-02-28": date(2024, 2, 28), "2024": date(2024, 1, 1), "2024-2-3T99": date(2024, 2, 3),
            "2024-02-30": None, "x": None,
        }),
        (STRING, "TIMESTAMP", {
            "2024-02-28 12:00:00": NOON, "2024-02-28T13:00+01:00": NOON, "2024-02-28 12": NOON,
            "2024-02-28 12:00Z": NOON, "2024-02-28 25:00": None, "12:00": None,
        }),
        (STRING, "DECIMAL(4,1)", {"12.34": Decimal("12.3"), "1234": None, "x": None}),
        (DOUBLE, "BIGINT", {1.9: 1, -1.9: -1, 1e300: MAX, -1e300: MIN}),
        (DOUBLE, "TINYINT", {300.0: 44, 1e300: -1, -129.0: 127}),
        (DOUBLE, "STRING", {1.0: "1.0", 1e7: "1.0E7"}),
        (DOUBLE, "BOOLEAN", {0.0: False, 0.1: True}),
        (DOUBLE, "TIMESTAMP", {0.5: datetime(1970, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC), float("inf"): None}),
        (BIGINT, "SMALLINT", {40_000: -25_536, -1: -1}),
        (BIGINT, "DOUBLE", {3: 3.0}),
        (BIGINT, "STRING", {-3: "-3"}),
        (BIGINT, "BOOLEAN", {0: False, 2: True}),
        (BIGINT, "TIMESTAMP", {1_709_121_600: NOON, MAX: None}),
        (BOOLEAN, "BIGINT", {True: 1, False: 0}),
        (BOOLEAN, "DOUBLE", {True: 1.0}),
        (BOOLEAN, "STRING", {True: "true"}),
        (TIMESTAMP, "BIGINT", {NOON: 1_709_121_600}),
        (TIMESTAMP, "DOUBLE", {NOON: 1_709_121_600.0}),
        (TIMESTAMP, "DATE", {NOON: date(2024, 2, 28)}),
        (
            TIMESTAMP,
            "STRING",
            {NOON: "2024-02-28 12:00:00", NOON.replace(microsecond=50): "2024-02-28 12:00:00.00005"},
        ),
        (DATE, "TIMESTAMP", {date(2024, 2, 28): NOON.replace(hour=0)}),
        (DATE, "STRING", {date(2024, 2, 28): "2024-02-28"}),
        (DATE, "BIGINT", {date(2024, 2, 28): None}),
        (DATE, "DOUBLE", {date(2024, 2, 28): None}),
        (DATE, "DECIMAL(4,1)", {date(2024, 2, 28): None}),
        (BINARY, "STRING", {b"a\xff": "a\ufffd"}),
        (STRING, "BINARY", {"é": "é".encode()}),
        (pa.decimal128(4, 1), "BIGINT", {Decimal("12.9"): 12}),
        (pa.decimal128(4, 1), "DOUBLE", {Decimal("12.9"): 12.9}),
        (pa.decimal128(4, 1), "STRING", {Decimal("12.9"): "12.9"}),
        (pa.decimal128(4, 1), "BOOLEAN", {Decimal("0.0"): False, Decimal("0.1"): True}),
        (VOID, "BIGINT", {}),
    ],
    ids=str,
)  # fmt: skip
def test_a_value_is_cast(kind: pa.DataType, target: str, pairs: dict[Any, Any]) -> None:
    found = cast(pa.array([*pairs, None], kind), target)
    assert found.to_pylist() == [*pairs.values(), None]


@pytest.mark.parametrize(
    ("kind", "target", "pairs"),
    [
        (DOUBLE, "BIGINT", {1.9: 1, 1e300: None}),
        (DOUBLE, "TINYINT", {127.5: 127, 128.0: None}),
        (BIGINT, "SMALLINT", {40_000: None, -32_768: -32_768}),
        (STRING, "BIGINT", {"5.7": None, "5": 5}),
    ],
    ids=str,
)
def test_try_cast_cuts_nothing(kind: pa.DataType, target: str, pairs: dict[Any, Any]) -> None:
    assert cast(pa.array(list(pairs), kind), target, strict=True).to_pylist() == list(pairs.values())


@pytest.mark.parametrize(
    ("kind", "target", "can"),
    [
        (BIGINT, "DATE", False),
        (STRING, "DATE", True),
        (BINARY, "BIGINT", False),
        (BIGINT, "BINARY", False),
        (VOID, "BINARY", True),
        (pa.list_(BIGINT), "STRING", True),
        (pa.list_(BIGINT), "DOUBLE", False),
        (pa.decimal128(4, 1), "DATE", False),
    ],
)
def test_what_has_no_meaning_is_not_cast(kind: pa.DataType, target: str, can: bool) -> None:
    assert castable(kind, target) is can
    if not can:
        with pytest.raises(ValueError, match="cannot be cast"):
            cast(pa.array([], kind), target)


@given(st.floats())
def test_a_double_as_text_reads_back_bit_by_bit(value: float) -> None:
    (back,) = cast(pa.array([format_double(value)]), "DOUBLE").to_pylist()
    assert struct.pack("d", back) == struct.pack("d", value) or back != back


@given(st.floats(allow_nan=False), st.sampled_from([8, 32, 64]))
def test_a_double_is_clamped_to_the_nearest_whole_number_towards_zero(value: float, bits: int) -> None:
    edge = 1 << (bits - 1)
    exact = 0 if value != value else edge if value == float("inf") else -edge
    exact = int(value) if np.isfinite(value) else exact
    assert saturate(np.array([value]), bits)[0] == max(-edge, min(edge - 1, exact))


def test_nan_is_zero_as_in_java() -> None:
    assert cast(pa.array([float("nan")]), "BIGINT").to_pylist() == [0]
