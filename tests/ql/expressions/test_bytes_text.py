"""A BINARY keeps its bytes where a text is wanted. The expected values are a real Spark's (ANSI off)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

CASES: dict[str, Any] = {
    "md5({b})": "00594fd4f42ba43fc1ca0427a0576295",
    "md5(CAST({b} AS STRING))": "00594fd4f42ba43fc1ca0427a0576295",
    "sha1({b})": "85e53271e14006f0265921d02d4d736cdc580b0b",
    "sha2({b}, 256)": "a8100ae6aa1940d0b663bb31cd466142ebbdbd5187131b92d93818987832eb89",
    "crc32({b})": 4278190080,
    "hash({b})": 1398487324,
    "hash(CAST({b} AS STRING))": 1398487324,
    "base64(CAST({b} AS STRING))": "/w==",
    "hex(CAST(CAST({b} AS STRING) AS BINARY))": "FF",
    "hex({x})": "FF00AB",
    "length({x})": 3,
    "octet_length({x})": 3,
    "bit_length(CAST({x} AS STRING))": 24,
    "char_length(unhex('c3a9'))": 2,
    "length(CAST(unhex('c3a9') AS STRING))": 1,
    "concat({b}, {x})": b"\xff\xff\x00\xab",
    "typeof(concat({b}))": "binary",
    "concat({b}, 'a')": "�a",
    "hex({b} || 'a')": "FF61",
    "hex(concat_ws(',', {b}, 'a'))": "FF2C61",
    "concat({b}, CAST(NULL AS BINARY))": None,
    "substring({x}, 2, 1)": b"\x00",
    "substring({x}, -2)": b"\x00\xab",
    "substring({x}, 0, 2)": b"\xff\x00",
    "substring({x}, -5, 3)": b"\xff",
    "substr({x} FROM 2 FOR 1)": b"\x00",
    "left({x}, 2)": b"\xff\x00",
    "left({x}, -1)": b"",
    "typeof(right({x}, 2))": "string",
    "hex(right({x}, 2))": "00AB",
    "reverse({x})": b"\xab\x00\xff",
    "hex(trim(unhex('20ff20')))": "FF",
    "hex(ltrim(unhex('20ff20')))": "FF20",
    "hex(trim(BOTH unhex('ff') FROM unhex('ff61ff')))": "61",
    "hex(repeat({b}, 2))": "FFFF",
    "overlay({x}, unhex('11'), 2)": b"\xff\x11\xab",
    "overlay({x} PLACING unhex('11') FROM 2)": b"\xff\x11\xab",
    "overlay('Spark SQL' PLACING '_' FROM 6)": "Spark_SQL",
    "overlay('Spark SQL' PLACING 'tructured' FROM 2 FOR 4)": "Structured SQL",
    "lpad({b}, 3)": b"\x00\x00\xff",
    "hex(lpad({b}, 3, 'ab'))": "6162FF",
    "lpad('ab', 5, unhex('31'))": "111ab",
    "lpad({b}, 3, unhex(''))": b"\xff",
    "rpad(unhex('ffab'), 1)": b"\xff",
    "rpad(unhex('ffab'), 5, unhex('01'))": b"\xff\xab\x01\x01\x01",
    "rpad(unhex('ffab'), -1)": b"",
    "position(unhex('ab') IN {x})": 3,
    "instr({x}, unhex('ab'))": 3,
    "locate(unhex('00'), {x})": 2,
    "substring_index(unhex('ff2e00'), '.', 1)": "�",
    "hex(substring_index(unhex('ff2e00'), '.', 1))": "FF",
    "levenshtein({b}, unhex('fe'))": 1,
    "hex(replace(unhex('ff61'), 'a', 'b'))": "FF62",
    "hex(upper(unhex('ff61')))": "EFBFBD41",
    "hex(translate(unhex('ff61'), 'a', 'b'))": "EFBFBD62",
    "hex(split_part(unhex('ff2e61'), '.', 1))": "EFBFBD",
    "contains({x}, unhex('00'))": True,
    "contains(unhex('6162'), 'a')": True,
    "startswith({x}, unhex('00'))": False,
    "endswith({x}, unhex('ab'))": True,
    "{b} = CAST({b} AS STRING)": True,
    "CAST({b} AS STRING) = CAST(unhex('fe') AS STRING)": False,
    "CAST({b} AS STRING) IN ('a', CAST({b} AS STRING))": True,
    "{b} LIKE '_'": True,
    "x'1F'": b"\x1f",
    "hex(x'1F' || X'ff')": "1FFF",
}
TABLE = pa.table(
    {"b": pa.array([b"\xff"], pa.binary()), "x": pa.array([b"\xff\x00\xab"], pa.binary()), "one": [1]}
)


@pytest.mark.parametrize("given", ["constants", "columns"])
@pytest.mark.parametrize("expression", CASES)
def test_bytes_stay_bytes(expression: str, given: str, rows_of: Callable[..., list[tuple[Any, ...]]]) -> None:
    held, more = ("unhex('ff')", "unhex('ff00ab')") if given == "constants" else ("b", "x")
    text = expression.format(b=held, x=more)
    ((value,),) = rows_of(f"SELECT {text} AS r FROM t", TABLE)
    assert value == CASES[expression]
    assert type(value) is type(CASES[expression])


def test_listagg_joins_bytes(rows_of: Callable[..., list[tuple[Any, ...]]]) -> None:
    data = pa.table({"b": pa.array([b"\xde\xad", b"\xbe\xef"], pa.binary())})
    assert rows_of("SELECT listagg(b) AS a, listagg(b, ',') AS c FROM t", data) == [
        (b"\xbe\xef\xde\xad", b"\xbe\xef,\xde\xad")
    ]
    assert rows_of("SELECT listagg(b) AS a FROM t WHERE b IS NULL", data) == [(None,)]
