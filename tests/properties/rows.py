"""Random rows of typed columns, with nulls, ties and empty inputs: as logs and as tables of DuckDB."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

INT, NUM, DEC, TEXT, TIME, BOOL = "int", "num", "dec", "text", "time", "bool"
"""Types of values: BIGINT, DOUBLE, DECIMAL(8, 2), STRING, TIMESTAMP, BOOLEAN."""

BASE = datetime(2024, 2, 28, 23, 59, 30, tzinfo=UTC)
KINDS = {
    INT: "BIGINT",
    NUM: "DOUBLE",
    DEC: "DECIMAL(8,2)",
    TEXT: "VARCHAR",
    TIME: "TIMESTAMP",
    BOOL: "BOOLEAN",
}
TEXTS = ("a", "b", "B", "ab", "", "10", "01", "7", "a b ", "é", "O'x", "2.5", "a_b%")
PLAIN_TEXTS = ("a", "b", "B", "ab", "x-y", "zed", "Oz")
"""Texts that no format without types takes for a number or for nothing."""

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name and the type of its values."""

    name: str
    sort: str


@dataclass(frozen=True, slots=True)
class Table:
    """A stream and its records."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


SCHEMAS = {
    "t": {"id": INT, "ts": TIME, "k": TEXT, "n": INT, "v": INT, "x": NUM, "d": DEC, "w": TIME, "f": BOOL},
    "u": {"id": INT, "ts": TIME, "k": TEXT, "g": TEXT, "m": INT, "y": NUM, "e": DEC, "h": BOOL},
    "s": {"id": INT, "ts": TIME, "k": TEXT, "n": INT, "x": NUM, "w": TIME},
}


def tables(rng: random.Random, *, rows_max: int = 12, texts: Sequence[str] = TEXTS) -> dict[str, Table]:
    """All streams; now and then one is empty, and a column has nulls only."""
    found = {}
    for name, schema in SCHEMAS.items():
        count = 0 if name != "t" and rng.random() < 0.1 else rng.randint(1, rows_max)
        found[name] = table(rng, name, schema, count, texts)
    return found


def table(
    rng: random.Random, name: str, schema: dict[str, str], count: int, texts: Sequence[str] = TEXTS
) -> Table:
    """One stream of so many records; `id` is unique, `ts` is never null and has ties."""
    pool = rng.sample(texts, k=min(len(texts), rng.randint(2, 5)))
    nulls = {column: rng.choice((0, 0, 0.2, 0.2, 0.5, 1 if rng.random() < 0.2 else 0.3)) for column in schema}
    rows = []
    for number in range(count):
        row: Row = {"id": number + 1, "ts": moment(rng)}
        for column, sort in schema.items():
            if column not in row:
                row[column] = None if rng.random() < nulls[column] else value(rng, sort, pool)
        rows.append(row)
    return Table(name, tuple(Column(*each) for each in schema.items()), tuple(rows))


def moment(rng: random.Random) -> datetime:
    """A time within 40 seconds, often one that others have too."""
    return BASE + timedelta(milliseconds=500 * rng.randrange(80))


def value(rng: random.Random, sort: str, texts: Sequence[str]) -> Any:
    if sort == INT:
        return rng.choice((rng.randint(-3, 3), rng.randint(-3, 12), rng.randint(0, 2)))
    if sort == NUM:
        return rng.randint(-12, 40) / 4
    if sort == DEC:
        return Decimal(rng.choice((rng.randint(-300, 900), 50 * rng.randint(-4, 10)))).scaleb(-2)
    if sort == TEXT:
        return rng.choice(texts)
    return rng.random() < 0.5 if sort == BOOL else moment(rng)


# -- As logs


def stamp(value: datetime) -> str:
    return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03}Z"


def shown(value: Any) -> Any:
    """A value as JSON has it: decimals and times are texts."""
    if isinstance(value, datetime):
        return stamp(value)
    return str(value) if isinstance(value, Decimal) else value


def write_json(table: Table, path: Path) -> None:
    """One object a line; a null is written as null or left out, by turns."""
    lines = []
    for number, row in enumerate(table.rows):
        kept = {name: shown(each) for name, each in row.items() if each is not None or number % 2}
        lines.append(json.dumps(kept) + "\n")
    path.write_text("".join(lines))


NESTED = {
    "k": "@o.a.k",
    "n": "@o.n",
    "v": "CAST(@l[0] AS BIGINT)",
    "x": "CAST(@o.a.b[1] AS DOUBLE)",
    "d": "CAST(@o.d AS DECIMAL(8,2))",
    "w": "CAST(@l[1] AS TIMESTAMP)",
    "f": "@`o.f`",
}
"""Where `write_nested` puts the columns of the stream t."""


UNTYPED = {
    "id": "CAST(@id AS BIGINT)",
    "n": "CAST(@n AS BIGINT)",
    "v": "CAST(@v AS BIGINT)",
    "x": "CAST(@x AS DOUBLE)",
    "d": "CAST(@d AS DECIMAL(8,2))",
    "w": "CAST(@w AS TIMESTAMP)",
    "f": "CAST(@f AS BOOLEAN)",
}
"""How columns are written where a format without types has them as text."""


def write_nested(table: Table, path: Path) -> None:
    """The records of the stream t with objects in objects, lists, and a key that has a dot itself."""
    lines = []
    for number, row in enumerate(table.rows):
        one = {name: shown(each) for name, each in row.items()}
        inner = {"k": one["k"], "b": ["no", one["x"], {"c": []}]}
        outer = {"a": inner, "n": one["n"], "d": one["d"]}
        if one["n"] is None and number % 2:
            del outer["n"]
        listed = [one["v"], one["w"]]
        lines.append(
            json.dumps({"id": one["id"], "ts": one["ts"], "o": outer, "l": listed, "o.f": one["f"]}) + "\n"
        )
    path.write_text("".join(lines))


def write_separated(table: Table, path: Path, separator: str = ",") -> None:
    """Cells with a heading line; nothing for null."""
    names = [column.name for column in table.columns]
    lines = [separator.join(names)]
    lines += [separator.join(_cell(row[name]) for name in names) for row in table.rows]
    path.write_text("\n".join(lines) + "\n")


def write_logfmt(table: Table, path: Path) -> None:
    """name=value, without the nulls."""
    lines = [
        " ".join(f"{name}={_cell(each)}" for name, each in row.items() if each is not None)
        for row in table.rows
    ]
    path.write_text("".join(line + "\n" for line in lines))


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(shown(value))


# -- As tables


def load(connection: Any, table: Table, name: str = "") -> None:
    """Make the table in DuckDB, in place of one of that name."""
    name = name or table.name
    columns = ", ".join(f"{column.name} {KINDS[column.sort]}" for column in table.columns)
    connection.execute(f"CREATE OR REPLACE TABLE {name} ({columns})")
    if table.rows:
        rows = ", ".join("(" + ", ".join(map(literal, row.values())) + ")" for row in table.rows)
        connection.execute(f"INSERT INTO {name} VALUES {rows}")


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)
