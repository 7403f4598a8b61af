"""Lookup tables: joined where the records are read, read again when they change, never half a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from elfmesh.errors import DataError, QueryError
from elfmesh.ingest.lookups import LookupTables
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.local.embedded import LogRun
from elfmesh.ql import parse

CLICKS: list[dict[str, Any]] = [
    {"ts": f"2015-05-17T10:05:{at:02}Z", "p": "abc?"[at % 4], "n": at, "user": {"id": at % 5}}
    for at in range(40)
]
PRODUCTS = "id,name,price\na,Ant,2.5\nb,Bee,3\nz,Zoo,1\n,nobody,7\n"


def tables(path: Path, text: str = PRODUCTS, **settings: Any) -> LookupTables:
    path.write_text(text)
    return LookupTables({"products": StreamConfig(path=str(path), **{"format": "csv", **settings})})


def run(tmp_path: Path, text: str, lookups: LookupTables) -> tuple[list[tuple[Any, ...]], dict[str, int]]:
    log = tmp_path / "clicks.ndjson"
    log.write_text("".join(json.dumps(line) + "\n" for line in CLICKS))
    (result,) = LogRun(parse(text), [str(log)], format="json", lookups=lookups).results()
    return [tuple(row.values()) for row in result.table.to_pylist()], result.record.counts


def plain(inner: bool) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What the join means, record by record."""
    rows: dict[str, dict[str, Any]] = {"a": {"name": "Ant", "price": 2.5}, "b": {"name": "Bee", "price": 3.0}}
    found = [(record, rows.get(record["p"])) for record in CLICKS]
    return [(record, row or {"name": None, "price": None}) for record, row in found if row or not inner]


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
def test_a_lookup_joins_each_record_to_one_row(tmp_path: Path, kind: str) -> None:
    text = f"SELECT c.n, l.name FROM clicks c {kind} lookup.products l ON c.p = l.id ORDER BY c.n"
    rows, counts = run(tmp_path, text, tables(tmp_path / "products.csv"))
    expected = [(record["n"], row["name"]) for record, row in plain(kind == "JOIN")]
    assert rows == expected
    assert (counts["contributed"], counts["filtered"]) == (len(expected), len(CLICKS) - len(expected))


def test_grouping_by_a_looked_up_column_is_reduced_where_the_records_are(tmp_path: Path) -> None:
    text = (
        "SELECT upper(l.name) AS name, count(*) AS k, sum(c.n * l.price) AS worth FROM clicks c "
        "JOIN lookup.products l ON l.id = c.p WHERE l.price > 2.6 OR c.n < 5 GROUP BY l.name"
    )
    statement = parse(text)
    assert [len(part.lookups) for part in statement.parts] == [1]
    assert statement.fields == ("n", "p")
    rows, _ = run(tmp_path, text, tables(tmp_path / "products.csv"))
    kept = [(record, row) for record, row in plain(True) if row["price"] > 2.6 or record["n"] < 5]
    expected: dict[str, tuple[int, float]] = {}
    for record, row in kept:
        number, worth = expected.get(row["name"].upper(), (0, 0.0))
        expected[row["name"].upper()] = (number + 1, worth + record["n"] * row["price"])
    assert {name: (number, worth) for name, number, worth in rows} == expected


def test_a_lookup_and_a_join_of_streams_go_together(tmp_path: Path) -> None:
    text = (
        "SELECT l.name, count(*) AS k FROM clicks c LEFT JOIN lookup.products l ON c.p = l.id "
        "JOIN clicks d ON d.user.id = c.user.id AND d.n > c.n GROUP BY l.name"
    )
    rows, _ = run(tmp_path, text, tables(tmp_path / "products.csv"))
    expected: dict[str | None, int] = {}
    for record, row in plain(False):
        partners = [other for other in CLICKS if other["user"] == record["user"] and other["n"] > record["n"]]
        expected[row["name"]] = expected.get(row["name"], 0) + len(partners)
    assert dict(rows) == {name: number for name, number in expected.items() if number}


def test_json_lookups_take_expressions_and_two_keys(tmp_path: Path) -> None:
    lines = [{"id": "A", "odd": at, "label": f"a{at}"} for at in (0, 1)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    lookups = tables(tmp_path / "products.json", text, format="json")
    query = (
        "SELECT c.n, l.label FROM clicks c JOIN lookup.products l ON upper(c.p) = l.id AND c.n % 2 = l.odd "
        "ORDER BY c.n LIMIT 3"
    )
    assert run(tmp_path, query, lookups)[0] == [(0, "a0"), (4, "a0"), (8, "a0")]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (PRODUCTS + "a,again,1\n", "has a key (id) twice"),
        ("id,price\na,1\n", "has no column name"),
        ('id,name,price\na,"x\n', "cannot be read"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    query = "SELECT l.name FROM clicks c JOIN lookup.products l ON c.p = l.id"
    with pytest.raises(DataError, match=reason.replace("(", r"\(").replace(")", r"\)")):
        run(tmp_path, query, tables(tmp_path / "products.csv", text))


def test_an_unknown_table_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    query = "SELECT l.name FROM clicks c JOIN lookup.product l ON c.p = l.id"
    with pytest.raises(DataError, match="no lookup table product") as caught:
        run(tmp_path, query, tables(tmp_path / "products.csv"))
    assert caught.value.hint == "Did you mean products?"


def _names(lookups: LookupTables, columns: Sequence[str] = ("name",)) -> list[Any]:
    found: list[Any] = lookups("products", tuple(columns)).column("name").to_pylist()
    return found


def test_a_changed_file_is_read_again_and_a_broken_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "products.csv"
    lookups = tables(path)
    assert _names(lookups) == ["Ant", "Bee", "Zoo", "nobody"]
    lookups.refresh()
    path.write_text("id,name,price\na,Emu,1\n")
    assert _names(lookups) == ["Ant", "Bee", "Zoo", "nobody"]  # until a worker says that an interval is over
    lookups.refresh()
    assert _names(lookups) == ["Emu"]
    path.write_text("id,price\na,1\n")
    lookups.refresh()
    assert _names(lookups) == ["Emu"]
    path.unlink()
    lookups.refresh()
    assert _names(lookups) == ["Emu"]
    other = tmp_path / "new.csv"
    other.write_text("id,name\na,Gnu\n")
    other.replace(path)
    lookups.refresh()
    assert _names(lookups) == ["Gnu"]


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("SELECT l.a FROM s RIGHT JOIN lookup.l ON s.a = l.a", 30, "RIGHT JOIN with a lookup"),
        ("SELECT l.a FROM lookup.l", 17, "must come after JOIN"),
        ("SELECT l.a FROM s JOIN lookup.l ON s.a < l.a", 24, "by equations"),
        ("SELECT l.a FROM s JOIN t ON s.x = t.x JOIN lookup.l ON s.a + t.a = l.a", 44, "to one stream"),
        ("SELECT l.a FROM (SELECT a FROM s) s JOIN lookup.l ON s.a = l.a", 42, "to one stream"),
        ("SELECT l.a FROM s LEFT JOIN t ON s.x = t.x JOIN lookup.l ON t.a = l.a", 49, "optional side"),
    ],
)
def test_a_lookup_elsewhere_is_refused(text: str, column: int, message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        parse(text)
    assert caught.value.line == 1
    assert abs((caught.value.column or 0) - column) <= len("lookup.")
    assert caught.value.hint
