"""Aggregates over frames are what a plain walk over the rows gives, however frames are cut into tables."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from elfmesh.errors import QueryError
from elfmesh.ql import parse
from elfmesh.ql.engine.relational import Relational
from elfmesh.ql.expressions.nodes import FieldRef

Row = dict[str, Any]
BOUNDS: list[tuple[str, int | None]] = [
    ("UNBOUNDED PRECEDING", None), ("3 PRECEDING", -3), ("1 PRECEDING", -1), ("CURRENT ROW", 0),
    ("2 FOLLOWING", 2), ("UNBOUNDED FOLLOWING", None),
]  # fmt: skip


def rows_of(rng: random.Random, count: int) -> list[Row]:
    return [
        {"id": at, "k": rng.choice("ab"), "v": rng.choice([None, *range(-5, 9)]), "x": rng.randrange(100)}
        for at in range(count)
    ]


def evaluate(text: str, rows: list[Row], rows_max: int) -> list[Row]:
    """The root's part of a query over the rows of its one part, with so many rows at a time."""
    statement = parse(text)
    (part,) = statement.parts
    fields = [expr.path for expr in part.plan.keys if isinstance(expr, FieldRef)]
    given = zip(part.columns, fields, strict=True)
    table = pa.table({column: [row[name] for row in rows] for column, name in given})
    root = Relational(statement, rows_max=rows_max)
    found: list[Row] = root.table(lambda _at, _scalars: table, None).to_pylist()
    return found


def inside(rows: list[Row], mine: Row, kind: str, first: Any, last: Any) -> list[Row]:
    """The rows of a frame, by the words of the standard."""
    same = [row for row in rows if row["k"] == mine["k"]]
    if kind == "ROWS":
        same.sort(key=lambda row: (row["v"] is not None, row["v"] or 0, row["id"]))
        at = same.index(mine)
        low = 0 if first is None else max(0, at + first)
        return same[low : len(same) if last is None else max(0, at + last + 1)]
    null = mine["v"] is None

    def belongs(row: Row) -> bool:
        if row["v"] is None or null:
            before, after = row["v"] is None and not null, row["v"] is not None and null
            return (row["v"] is None and null) or (before and first is None) or (after and last is None)
        distance = row["v"] - mine["v"]
        return (first is None or distance >= first) and (last is None or distance <= last)

    return [row for row in same if belongs(row)]


@pytest.mark.parametrize("rows_max", [40, 1 << 20])
@pytest.mark.parametrize("kind", ["ROWS", "RANGE"])
def test_frames_are_as_the_standard_defines_them(kind: str, rows_max: int) -> None:
    rng = random.Random(len(kind))
    for first_at, (begin, first) in enumerate(BOUNDS[:5]):
        for end, last in BOUNDS[max(1, first_at) :]:
            rows = rows_of(rng, rng.randrange(1, 30))
            over = f"OVER (PARTITION BY k ORDER BY v {kind} BETWEEN {begin} AND {end})"
            chosen = f"id, sum(x) {over} AS s, count(*) {over} AS n, min(x) {over} AS m, k, v"
            text = f"SELECT {chosen} FROM t ORDER BY id"
            found = evaluate(text, rows, rows_max)
            for mine, row in zip(rows, found, strict=True):
                seen = [each["x"] for each in inside(rows, mine, kind, first, last)]
                assert row["n"] == len(seen), text
                assert row["s"] == (sum(seen) if seen else None), text
                assert row["m"] == min(seen, default=None), text


def test_a_distance_needs_values_that_have_one() -> None:
    rows = [{"id": 1, "x": 1, "k": "a", "v": "text"}]
    text = "SELECT id, sum(x) OVER (PARTITION BY k ORDER BY v RANGE 2 PRECEDING) AS s FROM t"
    with pytest.raises(QueryError, match="RANGE with a number is not for STRING") as caught:
        evaluate(text, rows, 100)
    assert caught.value.column == 12
    assert "ROWS" in caught.value.hint
