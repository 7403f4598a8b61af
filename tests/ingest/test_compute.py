"""Partials that were made here and are read here again: not decoded, and no answer depends on it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh import ql
from elfmesh.cbt import (
    Content,
    Panes,
    PartialTooLarge,
    encode_known,
    encode_parts,
    finish_parts,
    merge_partials,
)
from elfmesh.control.jobs.manifest import new_manifest
from elfmesh.control.jobs.plan import read_job
from elfmesh.control.protocol.events import Finalise
from elfmesh.errors import ProtocolError
from elfmesh.ingest.compute import KnownPartials, PartialCompute
from elfmesh.ingest.worker.insertion import batches_of
from elfmesh.ql.engine.block import BlockRows
from elfmesh.ql.values.plain_ipc import ipc_to_table

QUERY = ql.Query(
    ql.parse(
        "SELECT k, count(*) AS n, SUM(v) AS s, MIN(v) AS low, count(DISTINCT v) AS d FROM log GROUP BY k"
    )
)
RECORDS = st.lists(
    st.tuples(st.one_of(st.none(), st.sampled_from("abcdef")), st.one_of(st.none(), st.integers(-3, 3))),
    min_size=1,
    max_size=30,
)


def contents(records: list[tuple[str | None, int | None]]) -> dict[str, Content]:
    k, v = zip(*records, strict=True)
    batch = pa.RecordBatch.from_arrays([pa.array(k, pa.string()), pa.array(v, pa.int64())], names=["k", "v"])
    prepared = QUERY.prepare(batch)
    panes = Panes(QUERY.statement.tables, None)
    panes.insert_all(
        {name: (np.zeros(rows.num_rows, np.int64), rows) for name, rows in prepared.tables.items()}
    )
    window = panes.window(0)
    assert window is not None
    return window


def finished(worker: PartialCompute, *parts: bytes) -> Any:
    tables = finish_parts(parts, worker._known.take(parts))
    return QUERY.finalise_parts(tables, None)


@given(st.lists(RECORDS, min_size=1, max_size=4))
def test_bytes_and_answers_are_those_without_memory(
    batches: list[list[tuple[str | None, int | None]]],
) -> None:
    worker, forgetful = PartialCompute(), PartialCompute()
    forgetful._known = KnownPartials(0)
    parts = [worker.encode(contents(records), 1)[0] for records in batches]
    assert parts == [encode_parts(contents(records), 1)[0] for records in batches]
    merged = worker.merge(parts)
    assert merged == forgetful.merge(parts) == merge_partials(parts)
    assert finished(worker, merged).equals(finished(forgetful, merged))


def test_what_was_made_here_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(data: bytes) -> Any:
        raise AssertionError("decoded")

    worker = PartialCompute()
    parts = [worker.encode(contents([(key, 1)]), 1)[0] for key in "ab"]
    monkeypatch.setattr("elfmesh.cbt.partial.partial.open_partial", refuse)
    table = finished(worker, worker.merge(parts))
    assert table.column("k").to_pylist() == ["a", "b"]
    with pytest.raises(AssertionError, match="decoded"):
        finished(worker, *parts)  # each is kept for one reader


def test_contents_of_other_plans_do_not_merge_unseen() -> None:
    worker = PartialCompute()
    other = ql.Query(ql.parse("SELECT k, MAX(v) AS n FROM log GROUP BY k"))
    panes = Panes(other.statement.tables, None)
    batch = other.prepare(pa.RecordBatch.from_pydict({"k": ["a"], "v": [1]})).tables["main"]
    panes.insert_all({"main": (np.zeros(1, np.int64), batch)})
    tables = panes.window(0)
    assert tables is not None
    with pytest.raises(ProtocolError, match="different plans"):
        worker.merge([worker.encode(contents([("a", 1)]), 1)[0], worker.encode(tables, 1)[0]])


def test_memory_is_bounded_and_given_back() -> None:
    known = KnownPartials(20_000)
    worker = PartialCompute()
    worker._known = known
    parts = [worker.encode(contents([(f"{number}", number)]), 1)[0] for number in range(40)]
    assert 0 < known.nbytes <= 20_000
    assert set(known.take(parts)) < set(parts)
    assert known.nbytes == 0
    large = contents([(f"{number}", 1) for number in range(9000)])
    worker.encode(large, 1)
    worker.encode(contents([("a", 1)]), 3)
    assert known.nbytes == 0


def large_values(number: int) -> dict[str, Content]:
    values = np.random.default_rng(5).bytes(30_000 * number).hex()
    return contents_of([values[60_000 * place : 60_000 * (place + 1)] for place in range(number)])


def contents_of(values: list[str]) -> dict[str, Content]:
    statement = ql.parse("SELECT count(DISTINCT v) AS d FROM log")
    prepared = ql.Query(statement).prepare(pa.RecordBatch.from_arrays([pa.array(values)], names=["v"]))
    panes = Panes(statement.tables, None)
    panes.insert_all(
        {name: (np.zeros(rows.num_rows, np.int64), rows) for name, rows in prepared.tables.items()}
    )
    window = panes.window(0)
    assert window is not None
    return window


@pytest.mark.parametrize("partitions", [1, 3])
def test_what_no_message_carries_is_refused_when_so_many_bytes_are_written(partitions: int) -> None:
    tables = large_values(600)
    with pytest.raises(PartialTooLarge, match="one message carries"):
        PartialCompute().encode(tables, partitions)


def test_few_rows_of_many_bytes_are_not_kept_for_the_next_reader() -> None:
    partial, known = encode_known(large_values(200))
    assert partial
    assert known == {}


def test_rows_are_made_without_prefixes_that_cannot_be_merged() -> None:
    text = "CREATE JOB a.b AS SELECT k, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), k"
    statement = ql.parse(text)
    manifest = new_manifest(read_job(text)[0], text, "local", created=1, incarnation="i")

    def partial(key: Any) -> bytes:
        batch = pa.record_batch({"k": pa.array([key]), "ts": pa.array([1], pa.timestamp("us"))})
        panes = Panes(statement.tables, 10_000_000)
        panes.insert_all(batches_of(ql.Query(statement).prepare(BlockRows.of(batch))))
        return encode_parts(panes.pane(0), 1)[0]

    def made(*prefixes: bytes) -> tuple[list[dict[str, Any]], bool]:
        order = Finalise(manifest.job_id, 1, manifest, 0, ((partial("a"),),), prefixes=prefixes)
        found = PartialCompute().finalised(order)
        return ipc_to_table(found.rows).to_pylist(), found.lacks_prefixes

    assert made(partial("a"), partial("a")) == ([{"k": "a", "n": 3}], False)
    assert made(partial("a"), b"damaged") == ([{"k": "a", "n": 1}], True)
    assert made(partial(datetime(2015, 5, 17))) == ([{"k": "a", "n": 1}], True)
    assert made() == ([{"k": "a", "n": 1}], False)
