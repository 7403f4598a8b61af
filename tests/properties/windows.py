"""Random statements that answer every interval: TUMBLE, HOP, SESSION, and jobs with EVERY.

What an interval means is put into the oracle's words by its tables: the statement without its window is asked
of the rows of one interval after the other. The oracle numbers sessions with functions OVER rows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import duckdb

from elfmesh.errors import ElfError
from elfmesh.ql import parse
from tests.properties.aggregates import aggregate
from tests.properties.compare import (
    CRASHED,
    DIFFERENT,
    EQUAL,
    NOT_COMPARED,
    Bench,
    Values,
    Verdict,
    compared,
    plain,
    refusal,
    rows_of,
)
from tests.properties.expressions import SORTS, Scope, condition, expression
from tests.properties.nodes import NOTHING, Node, listed, same, spare, two
from tests.properties.rows import BASE, TIME, Column, Table, literal
from tests.properties.statements import Maker, Query

START, END = "'#start'", "'#end'"
"""In an oracle's text: the bounds of the interval."""


@dataclass(slots=True)
class Windowed:
    """A statement over intervals so wide and so far apart, in seconds.

    Attributes:
        empty: it may have a row for no records, which an interval without records has not.
    """

    query: Query
    slide_s: int
    size_s: int
    empty: bool = False


def job(rng: random.Random, maker: Maker, depth: int, name: str = "p.j") -> Windowed:
    """Any statement, asked of every interval."""
    seconds = rng.choice((5, 10, 20))
    query = maker.statement(depth)
    text = two("", f"CREATE JOB {name} EVERY '{seconds} s' AS {{0}}", "{0}", query.text)
    return Windowed(Query(text, query.columns, query.ordered), seconds, seconds, "global" in maker.features)


def windowed(rng: random.Random, maker: Maker, depth: int) -> Windowed:
    """A grouped SELECT whose GROUP BY says the window."""
    slide = rng.choice((5, 10, 10, 20))
    size = slide * rng.choice((1, 1, 2, 3))
    word = f"TUMBLE(ts, INTERVAL '{size}' SECOND)"
    if size != slide or rng.random() < 0.1:
        word = f"HOP(ts, INTERVAL '{slide}' SECOND, INTERVAL '{size}' SECOND)"
    elif rng.random() < 0.3:
        word = f"window(ts, '{size} seconds')"
    maker.begin()
    inputs, scope, where = maker.source(depth)
    keys, seen = _keys(rng, scope)
    seen.leaves += [
        two(TIME, "window_start", f"CAST({START} AS TIMESTAMP)"),
        two(TIME, "window_end", f"CAST({END} AS TIMESTAMP)"),
    ]
    having: list[Node] = [spare(condition(rng, seen, 1))] if rng.random() < 0.25 else []
    columns, items = [], []
    for _ in range(rng.randint(1, 4)):
        sort = rng.choice(SORTS)
        columns.append(Column(maker.name("k"), sort))
        value = (
            maker.scalar(depth - 1, sort)
            if rng.random() < 0.1 and depth > 0
            else expression(rng, seen, sort, 1)
        )
        items.append(same("", f"{{0}} AS {columns[-1].name}", value))
    group = two(
        "",
        f" GROUP BY {word}{{0}}",
        " GROUP BY 'one'{0}",
        listed("", [spare(same("", ", {0}", key)) for key in keys]),
    )
    held = same("", " HAVING {0}", having[0]) if having else NOTHING
    parts = (listed(", ", items), inputs, where, group, held)
    text = same("", "SELECT {0} FROM {1}{2}{3}{4}", *parts)
    if rng.random() < 0.3:
        query = maker.ordered(text, tuple(columns))
        return Windowed(query, slide, size)
    return Windowed(Query(text, tuple(columns)), slide, size)


def _keys(rng: random.Random, scope: Scope) -> tuple[list[Node], Scope]:
    keys: list[Node] = []
    for _ in range(rng.choice((0, 1, 1, 2))):
        leaf = rng.choice(scope.leaves)
        if leaf.texts() not in [each.texts() for each in keys]:
            keys.append(leaf)
    return keys, Scope([*keys, *keys, *(aggregate(rng, scope, rng.choice(SORTS)) for _ in range(3))])


def sessions(rng: random.Random, maker: Maker) -> Windowed:
    """A SELECT over the sessions of one stream."""
    gap = rng.choice((1, 2, 3, 5))
    maker.begin()
    name, scope = maker.one_stream("q")
    keys, seen = _keys(rng, scope)
    edge = f"INTERVAL '{gap}' SECOND"
    seen.leaves += [
        two(TIME, "window_start", "min(q.ts)"),
        two(TIME, "window_end", f"(max(q.ts) + {edge})"),
    ]
    where = spare(same("", " WHERE {0}", condition(rng, scope, 1))) if rng.random() < 0.4 else NOTHING
    having = spare(same("", " HAVING {0}", condition(rng, seen, 1))) if rng.random() < 0.2 else NOTHING
    columns, items = [], []
    for _ in range(rng.randint(1, 4)):
        sort = rng.choice(SORTS)
        columns.append(Column(maker.name("k"), sort))
        items.append(same("", f"{{0}} AS {columns[-1].name}", expression(rng, seen, sort, 1)))
    word = f"SESSION(ts, {edge})" if rng.random() < 0.7 else f"session_window(ts, '{gap} seconds')"
    by = listed("", [same("", ", {0}", key) for key in keys])
    rows = (
        f"(SELECT q.*, lag(q.ts) OVER (PARTITION BY 'one'{{4}} ORDER BY q.ts) AS ahead FROM {name} q{{2}}) q"
    )
    fresh = f"CASE WHEN q.ts - q.ahead <= {edge} THEN 0 ELSE 1 END"
    rows = (
        f"(SELECT q.*, sum({fresh}) OVER (PARTITION BY 'one'{{4}} ORDER BY q.ts"
        f" RANGE UNBOUNDED PRECEDING) AS part FROM {rows}) q"
    )
    elf = f"SELECT {{0}} FROM {name} q{{2}} GROUP BY {word}{{4}}{{3}}"
    duck = f"SELECT {{0}} FROM {rows} GROUP BY q.part{{4}}{{3}}"
    text = two("", elf, duck, listed(", ", items), NOTHING, where, having, by)
    return Windowed(Query(text, tuple(columns)), gap, gap)


# -- Comparing


def verdict(bench: Bench, made: Windowed, text: Node) -> Verdict:
    """Run a statement of windows here, and in the oracle one interval after the other."""
    elf, duck = text.texts()
    try:
        wanted = {start: rows for start, rows in _wanted(bench, made, duck) if rows}
    except duckdb.Error as error:
        return Verdict(NOT_COMPARED, str(error).split("\n")[0])
    try:
        found = intervals(bench, elf)
    except ElfError as error:
        return refusal(error)
    except Exception as error:
        return Verdict(CRASHED, f"{type(error).__name__}: {str(error)[:200]}")
    for start in sorted({*wanted, *found}):
        if made.empty and start not in found:
            continue
        one = compared(wanted.get(start, []), found.get(start, []), ordered=made.query.ordered)
        if one.state != EQUAL:
            return Verdict(DIFFERENT, f"interval {start:%H:%M:%S}: {one.why}")
    return Verdict(EQUAL)


def intervals(bench: Bench, elf: str) -> dict[datetime, list[Values]]:
    """The rows of each interval that has some, by its start."""
    found: dict[datetime, list[Values]] = {}
    for result in bench.run(parse(elf)).results():
        rows = rows_of(result.table)
        if rows:
            assert result.record.start_us is not None
            found[datetime.fromtimestamp(result.record.start_us / 1e6, BASE.tzinfo)] = rows
    return found


def _wanted(bench: Bench, made: Windowed, duck: str) -> Iterator[tuple[datetime, list[Values]]]:
    for start in starts(bench.tables, made):
        end = start + timedelta(seconds=made.size_s)
        bounds = [literal(each).removeprefix("TIMESTAMP ") for each in (start, end)]
        for name, table in bench.tables.items():
            columns = ", ".join(column.name for column in table.columns)
            where = f"ts >= {bounds[0]} AND ts < {bounds[1]}"
            bench.connection.execute(
                f"CREATE OR REPLACE TEMP VIEW {name} AS "
                f"SELECT {columns} FROM memory.main.{name} WHERE {where}"
            )
        try:
            text = duck.replace(START, bounds[0]).replace(END, bounds[1])
            rows: list[tuple[Any, ...]] = bench.connection.execute(text).fetchall()
        finally:
            for name in bench.tables:
                bench.connection.execute(f"DROP VIEW temp.main.{name}")
        yield start, [tuple(map(plain, row)) for row in rows]


def starts(tables: Mapping[str, Table], made: Windowed) -> list[datetime]:
    """The starts of all intervals that any record is in."""
    found = set()
    for table in tables.values():
        for row in table.rows:
            newest = int(row["ts"].timestamp() // made.slide_s) * made.slide_s
            found |= {newest - back for back in range(0, made.size_s, made.slide_s)}
    return [datetime.fromtimestamp(start, BASE.tzinfo) for start in sorted(found)]


def session_verdict(bench: Bench, made: Windowed, text: Node) -> Verdict:
    """Run a statement of sessions here and in the oracle; a session is a row of one interval."""
    elf, duck = text.texts()
    return bench.verdict(elf, duck, ordered=False)


def judged(kind: str) -> Callable[[Bench, Windowed, Node], Verdict]:
    """How a class of statements is compared."""
    return session_verdict if kind == "session" else verdict
