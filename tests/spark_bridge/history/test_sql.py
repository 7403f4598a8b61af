"""Spark's golden queries that `elf run` answers as Spark does are answered so by `elf spark run` too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from elfmesh.errors import ElfError
from elfmesh.spark_bridge.history.inputs import given_inputs
from elfmesh.spark_bridge.history.sql import histories
from tests.compat.cases import NO_DATA
from tests.compat.golden import outcomes as o
from tests.compat.golden.compare import wrong_with
from tests.compat.golden.data import CASES, Golden, View, cases
from tests.compat.golden.reading import ONE, with_stream
from tests.compat.golden.run import parsed
from tests.exhaustive import nightly
from tests.spark_tests import long_spark

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not CASES.is_file(), reason=NO_DATA),
]

FEW = {
    "having#1", "having#2", "nonansi/string-functions#49", "typeCoercion/native/decimalPrecision#1",
    "own/mixed#91", "subquery/in-subquery/simple-in#4", "group-by-alias#9", "own/having#23",
    "own/collections#11", "own/collections#17",
    "order-by-and-having-on-top-of-aggregate-with-join#26",
}  # fmt: skip
"""Asked of Spark each time."""
OF_A_FILE = 8
"""Cases of each file, evenly spread, that `make test-all` asks: one costs 0.3 s. `make test-nightly`: all."""
FILES = sorted({case.file for case in cases() if case.accepted}) if CASES.is_file() else []


def in_intervals(view: View) -> bool:
    """Whether a column is an interval, which is no value of a log."""
    return any("interval" in kind for _, kind in view.columns)


def table_by_spark(spark: Any, case: Golden, tables: dict[str, pa.Table]) -> pa.Table | None:
    """The rows of an answer, None where no interval has any."""
    known = {name.lower(): table for name, table in tables.items()}
    frames = {
        name: spark.createDataFrame(known[name.lower()])
        for name in parsed(case.text, tables).streams
        if name.lower() in known
    }
    (history,) = histories(spark, case.text, given_inputs(frames))
    found = [each.table for each in history.answers()]
    history.close()
    return pa.concat_tables(found) if found else None


def wrong(spark: Any, chosen: list[Golden]) -> list[str]:
    """What Spark answers otherwise."""
    found = []
    for each in chosen:
        case = replace(each, text=with_stream(each.text))  # Spark reads a stream in every statement
        if any(map(in_intervals, case.views.values())) or o.outcome(case).state != o.EQUAL:
            continue
        tables = {name: view.table() for name, view in case.views.items()} | {ONE: pa.table({"unused": [1]})}
        try:
            table = table_by_spark(spark, case, tables)
            none = f"no rows instead of {len(case.rows)}" if case.rows else ""
            difference = none if table is None else wrong_with(case, table)
        except ElfError as error:
            difference = str(error)
        if difference:
            found.append(f"{case.name}: {case.text}\n  {difference}")
    return found


def test_some_golden_queries_on_spark(spark: Any) -> None:
    chosen = [case for case in cases() if case.name in FEW]
    assert len(chosen) == len(FEW)
    assert wrong(spark, chosen) == []


def accepted(file: str) -> list[Golden]:
    return [case for case in cases() if case.file == file and case.accepted]


@long_spark
@pytest.mark.parametrize("file", FILES)
def test_golden_queries_of_each_file_on_spark(file: str, spark: Any) -> None:
    found = accepted(file)
    count = min(OF_A_FILE, len(found))
    assert wrong(spark, [found[at * len(found) // count] for at in range(count)]) == []


@nightly
@pytest.mark.parametrize("file", FILES)
def test_all_golden_queries_on_spark(file: str, spark: Any) -> None:
    assert wrong(spark, accepted(file)) == []
