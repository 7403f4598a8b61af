"""Joins, UNION, queries inside queries, functions over rows and groupings give what a real Spark gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from elfmesh.ql import parse
from elfmesh.ql.values.columns import Value
from tests.ql.conftest import run_streams
from tests.ql.test_spark_agreement import DATA, _same
from tests.spark_tests import long_spark

pytestmark = [pytest.mark.spark, pytest.mark.slow]

OTHER = pa.table({"k": [1, 2, 2, 4, 7, 30, None, 4], "w": ["a", "b", "c", None, "b", "z", "n", "d"]})
TABLES = {"t": DATA, "u": OTHER}


def _groups() -> dict[str, list[str]]:
    text = (Path(__file__).parents[1] / "relational_queries.txt").read_text(encoding="utf-8")
    sections = [section.strip().splitlines() for section in text.split("## ")[1:]]
    return {title: lines for title, *lines in sections}


GROUPS = _groups()


@pytest.fixture(scope="module")
def views(spark: Any) -> Any:
    spark.createDataFrame(DATA).createOrReplaceTempView("t")
    spark.createDataFrame(OTHER).createOrReplaceTempView("u")
    return spark


def _sortable(row: tuple[Value, ...]) -> str:
    return repr([(type(value).__name__, str(value)) for value in row])


SMALL = {"joins", "scalars", "unions"}
"""Asked of Spark each time; the others by `make test-spark`."""


@pytest.mark.parametrize(
    "group", [pytest.param(name, marks=() if name in SMALL else long_spark) for name in GROUPS]
)
def test_relational_queries_agree_with_spark(group: str, views: Any) -> None:
    wrong = []
    for text in GROUPS[group]:
        theirs = views.sql(text).toArrow()
        statement = parse(text)
        (ours,) = run_streams(statement, {name: TABLES[name] for name in statement.streams}).values()
        assert ours.column_names == theirs.column_names, text
        mine = [tuple(row.values()) for row in ours.to_pylist()]
        other = [tuple(row.values()) for row in theirs.to_pylist()]
        if "ORDER BY" not in text.rpartition(")")[2]:
            mine, other = sorted(mine, key=_sortable), sorted(other, key=_sortable)
        same = len(mine) == len(other) and all(
            _same(one, two) or (one is None and two is None)
            for row, reference in zip(mine, other, strict=True)
            for one, two in zip(row, reference, strict=True)
        )
        if not same:
            wrong.append(f"{text}\n  ours  {mine}\n  Spark {other}")
    assert not wrong, "\n".join(wrong)
