"""A statement for Spark: whose columns `*` means."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elfmesh.errors import QueryError
from elfmesh.spark_bridge.history.inputs import given_inputs
from elfmesh.spark_bridge.history.plan import Task
from elfmesh.spark_bridge.history.sql import prepared
from tests.spark_bridge.history.engines import Asked, by_run, by_shares


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM a WHERE k IN (SELECT k FROM b)",
        "SELECT b.* FROM a JOIN b ON a.k = b.k",
        "SELECT * FROM (SELECT k FROM a UNION ALL SELECT * FROM b) q",
    ],
)
def test_a_star_beside_several_streams_is_the_columns_of_each(text: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f'{{"k": {at % 3}, "x": {at}}}\n' for at in range(40)))
    (tmp_path / "b").write_text('{"k": 1}\n{"k": 2}\n')
    each = Asked(text, given_inputs({name: (str(tmp_path / name), "json") for name in "ab"}))
    (((_, rows),),) = by_run(each)
    (((_, shares),),) = by_shares(each, 100)
    assert rows
    assert sorted(map(json.dumps, shares)) == sorted(map(json.dumps, rows))


def test_a_star_beside_a_query_that_uses_rows_outside_keeps_whose_columns_are_whose(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1,10\n2,20\n")
    (tmp_path / "b").write_text("1,10\n2,30\n")
    inputs = {"a": (str(tmp_path / "a"), "csv:k,x"), "b": (str(tmp_path / "b"), "csv:j,y")}
    each = Asked("SELECT * FROM a WHERE x IN (SELECT y FROM b WHERE k = j)", given_inputs(inputs))
    assert by_shares(each) == by_run(each) == [[(0, [{"k": "1", "x": "10"}])]]


def test_a_statement_without_from_is_refused_before_spark_is_used() -> None:
    with pytest.raises(QueryError, match="does not say FROM which stream it reads") as refused:
        prepared(None, Task("SELECT 1 AS a", 0, "query", "host"), {})
    assert "elf run" in str(refused.value.hint)
