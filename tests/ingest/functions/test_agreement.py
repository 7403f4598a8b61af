"""One computation per record, over columns and as an expression of the language: one answer, nulls too."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from elfmesh.ingest.functions.evaluator import Evaluator
from elfmesh.ingest.functions.process import Limits
from elfmesh.ql import Query, Statement, parse

WAYS = {
    # column: type, what it gives, per record, over a column, as an expression
    "n": ("BIGINT", "BIGINT", "x * 3 - 1", "pc.subtract(pc.multiply(x, 3), 1)", "n * 3 - 1"),
    "d": ("DOUBLE", "DOUBLE", "x / 2 + 1.5", "pc.add(pc.divide(x, 2.0), 1.5)", "d / 2 + 1.5"),
    "s": ("STRING", "STRING", "x + '!' + x", "pc.binary_join_element_wise(x, x, '!')", "s || '!' || s"),
    "b": ("BOOLEAN", "BOOLEAN", "not x", "pc.invert(x)", "NOT b"),
    "t": ("TIMESTAMP", "TIMESTAMP", "x + datetime.timedelta(hours=1)",
          "pc.add(x, datetime.timedelta(hours=1))", "t + INTERVAL '1' HOUR"),
    "h": ("TIMESTAMP", "BIGINT", "x.hour", "pc.hour(x)", "hour(h)"),
    "e": ("DATE", "DATE", "x + datetime.timedelta(days=40)",
          "pc.cast(pc.add(pc.cast(x, 'int32'), 40), 'int32').cast('date32')", "date_add(e, 40)"),
    "y": ("BINARY", "BIGINT", "len(x)", "pc.cast(pc.binary_length(x), 'int64')", "octet_length(y)"),
}  # fmt: skip
EXPECTED_KINDS = {
    "n": pa.int64(), "d": pa.float64(), "s": pa.string(), "b": pa.bool_(),
    "t": pa.timestamp("us", "UTC"), "h": pa.timestamp("us", "UTC"), "e": pa.date32(), "y": pa.binary(),
}  # fmt: skip
TIMES = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1), timezones=st.just(dt.UTC))
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "n": st.integers(-(2**60), 2**60),
        "d": st.floats(allow_nan=False, allow_infinity=False),
        "s": st.text(st.characters(codec="utf-8"), max_size=9),
        "b": st.booleans(),
        "t": TIMES,
        "h": TIMES,
        "e": st.dates(dt.date(1900, 1, 1), dt.date(2200, 1, 1)),
        "y": st.binary(max_size=9),
    },
)
"""A record; what it does not have is null."""


def statement() -> Statement:
    functions, columns = [], []
    for name, (takes, gives, record, column, expression) in WAYS.items():
        for kind, how, body in (("r", "", f"None if x is None else {record}"), ("v", " VECTORISED", column)):
            modules = "import pyarrow.compute as pc\n" if how else "import datetime\n"
            if how and "datetime" in body:
                modules += "import datetime\n"
            functions.append(
                f"FUNCTION {kind}_{name}(x {takes}) RETURNS {gives} LANGUAGE PYTHON{how} AS $$\n"
                f"{modules}def {kind}_{name}(x): return {body}\n$$"
            )
            columns.append(f"{kind}_{name}({name}) AS {kind}_{name}")
        columns.append(f"{expression} AS e_{name}")
    return parse(f"WITH {', '.join(functions)} SELECT {', '.join(columns)} FROM log")


@pytest.fixture(scope="module")
def query() -> Iterator[Query]:
    asked = statement()
    evaluator = Evaluator(asked.functions, Limits(seconds=30.0, memory_bytes=256 << 20))
    try:
        yield Query(asked, functions=evaluator)
        assert evaluator.restarts == 0, "one process for all examples"
    finally:
        evaluator.close()


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)  # each costs some round trips to the worker
@given(records=st.lists(VALUES, max_size=12))
@example(records=[])
@example(records=[{}, {}])
@example(records=[{"n": 0, "d": -0.0, "s": "\N{GRINNING FACE}\N{COMBINING ACUTE ACCENT}", "y": b""}, {}])
def test_a_function_per_record_one_over_columns_and_an_expression_agree(
    query: Query, records: list[dict[str, object]]
) -> None:
    columns = {name: pa.array([each.get(name) for each in records], EXPECTED_KINDS[name]) for name in WAYS}
    done = query.prepare(pa.record_batch(columns))
    assert done.failed == 0
    table = done.tables["main"]
    assert table.num_rows == len(records)
    found = dict(zip((f"{way}_{name}" for name in WAYS for way in "rve"), table.columns, strict=True))
    for name in WAYS:
        by_record, by_column, expression = (found[f"{way}_{name}"] for way in "rve")
        assert by_record.to_pylist() == by_column.to_pylist() == expression.to_pylist(), name
        assert by_record.null_count == columns[name].null_count


def test_a_time_that_python_cannot_represent_costs_its_record() -> None:
    asked = parse(
        "WITH FUNCTION f(x TIMESTAMP) RETURNS BIGINT LANGUAGE PYTHON AS $$\n"
        "def f(x): return x if x is None else x.year\n$$ SELECT f(t) AS y FROM log"
    )
    notes: list[str] = []
    evaluator = Evaluator(asked.functions, Limits(seconds=30.0, memory_bytes=256 << 20), note=notes.append)
    try:
        times = pa.array([0, None, 2**62, -(2**62), 1], EXPECTED_KINDS["t"])
        done = Query(asked, functions=evaluator).prepare(pa.record_batch({"t": times}))
    finally:
        evaluator.close()
    assert (done.failed, done.tables["main"].column(0).to_pylist()) == (2, [1970, None, 1970])
    assert evaluator.restarts == 0
    assert "cannot take a record" in notes[0]
