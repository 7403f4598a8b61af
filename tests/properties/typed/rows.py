"""Random rows of every type of column, with nulls and ties, or none: as Arrow tables and views of Spark."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.compat.golden.ask import written
from tests.compat.golden.data import View

INT, NUM, DEC, WIDE, TEXT, BIN, DATE, TIME, BOOL = (
    "int", "num", "dec", "wide", "text", "bin", "date", "time", "bool",
)  # fmt: skip
JSON = "json"
"""A text that holds a document of JSON, or nearly one: only functions of JSON take it."""
LIST, NUMBERS = "list", "numbers"
"""Lists of texts and of integers: only values in between, because no column is one."""
SORTS = (INT, NUM, DEC, WIDE, TEXT, BIN, DATE, TIME, BOOL)
SPARK_TYPES = {
    INT: "bigint", NUM: "double", DEC: "decimal(8,2)", WIDE: "decimal(20,4)", TEXT: "string", BIN: "binary",
    DATE: "date", TIME: "timestamp", BOOL: "boolean", JSON: "string",
}  # fmt: skip
TEXTS = (
    "a", "b", "B", "ab", "", "10", "01", " 7", "-3", "2.5", "1e2", "é", "2024-02-29", "2024-03-01 10:00:00",
    "true", "x", "a_b%", "2024-2-3", "0.10",
)  # fmt: skip
BYTES = (b"", b"a", b"ab", b"\xff", b"\x00\x01", b"10", b"\xc3\xa9")
DOCUMENTS = (
    '{"a": 1, "b": {"c": "x"}, "d": [1, 2, 3]}', '{"a": "1.5", "b": null, "d": []}',
    '{"a": true, "d": [{"g": "y"}]}',
    '{"b": {"c": {"f": [10, null]}}, "a": null}', '{"a": "q\\"r", "d": ["b", ["c"]]}', "[1, 2, 3]",
    '["x", null]',
    "{}", "[]", "", "oops", '{"a": 2', "null", '"text"', "-7", '{"A": 3, "a": 1e2}',
    '{"a": 12345678901234567890}',
    '{"d": {"0": "zero"}, "a": "\\u00e9"}', ' {"a" : 4.50 , "d" : [ 5 ] } ',
    '{"a": "2024-02-29", "d": [[1, 2], [3]]}',
)  # fmt: skip
BASE = datetime(2024, 2, 28, 23, 59, 30)

Columns = Mapping[str, str]
SCHEMAS: Mapping[str, Columns] = {
    "t": {
        "id": INT, "ts": TIME, "k": TEXT, "s": TEXT, "i": INT, "j": INT, "x": NUM, "d": DEC, "e": WIDE,
        "y": BIN, "a": DATE, "b": DATE, "w": TIME, "f": BOOL, "g": JSON,
    },
    "u": {
        "uid": INT, "ts": TIME, "uk": TEXT, "us": TEXT, "ui": INT, "ux": NUM, "ud": DEC, "ue": WIDE,
        "uy": BIN, "ua": DATE, "uw": TIME, "uf": BOOL, "ug": JSON,
    },
}  # fmt: skip


def views(rng: random.Random) -> dict[str, View]:
    """The rows of all streams; now and then one is empty, a column has nulls only, or nearly all are ties."""
    found = {}
    for name, schema in SCHEMAS.items():
        count = 0 if rng.random() < 0.08 else rng.randint(1, 10)
        nulls = {column: rng.choice((0, 0.2, 0.2, 0.5, 1 if rng.random() < 0.1 else 0)) for column in schema}
        pool = rng.sample(TEXTS, 6)
        tied = rng.random() < 0.2
        few = {column: [value(rng, sort, pool) for _ in range(2)] for column, sort in schema.items()}
        rows = []
        for number in range(count):
            row: list[Any] = []
            for at, (column, sort) in enumerate(schema.items()):
                if at == 0:
                    row.append(number + 1)
                elif column != "ts" and rng.random() < nulls[column]:
                    row.append(None)
                else:
                    row.append(written(rng.choice(few[column]) if tied else value(rng, sort, pool)))
            rows.append(tuple(row))
        found[name] = View(tuple((column, SPARK_TYPES[sort]) for column, sort in schema.items()), tuple(rows))
    return found


def value(rng: random.Random, sort: str, pool: list[str]) -> Any:
    """A value of a sort."""
    if sort == INT:
        return rng.choice((rng.randint(-3, 3), rng.randint(-20, 120), rng.randint(0, 2)))
    if sort == NUM:
        return rng.choice((rng.randint(-12, 40) / 4, rng.randint(-3, 3) / 1.0))
    if sort == DEC:
        return Decimal(rng.choice((rng.randint(-300, 900), 50 * rng.randint(-4, 10), 99999999))).scaleb(-2)
    if sort == WIDE:
        return Decimal(rng.choice((rng.randint(-30000, 90000), 5000 * rng.randint(-4, 10), 10**19))).scaleb(
            -4
        )
    if sort == TEXT:
        return rng.choice(pool)
    if sort == JSON:
        return rng.choice(DOCUMENTS)
    if sort == BIN:
        return rng.choice(BYTES)
    if sort == DATE:
        return rng.choice((date(2024, 2, 28), date(2023, 12, 31), date(2024, 3, 31))) + timedelta(
            rng.choice((0, 0, 1, 2, rng.randint(-400, 400)))
        )
    if sort == BOOL:
        return rng.random() < 0.5
    return BASE + timedelta(milliseconds=500 * rng.randrange(80))


def table(view: View) -> pa.Table:
    """A view as typed columns."""
    return view.table()


def spark_view(view: View) -> str:
    """A query of Spark that gives the rows of a view: constants, over which Spark projects without a job."""
    names = [f"CAST({name} AS {kind}) AS {name}" for name, kind in view.columns]
    columns = ", ".join(name for name, _ in view.columns)
    rows = [", ".join(map(_constant, row)) for row in view.rows] or [", ".join("NULL" for _ in view.columns)]
    where = "" if view.rows else " WHERE false"
    listed = ", ".join(f"({row})" for row in rows)
    return f"SELECT {', '.join(names)} FROM VALUES {listed} AS v({columns}){where}"


def _constant(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, dict):
        ((mark, inner),) = value.items()
        return f"X'{inner}'" if mark == "hex" else f"'{inner}'"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return str(value)
