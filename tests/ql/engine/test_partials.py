"""What is kept of intervals says, put together, what one interval over everything would have said."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh import ql
from elfmesh.cbt import Panes, encode_parts
from elfmesh.control.jobs.kept_partials import partials_of
from elfmesh.control.jobs.manifest import new_manifest
from elfmesh.control.protocol.events import Finalise
from elfmesh.errors import QueryError
from elfmesh.ingest.compute import PartialCompute
from elfmesh.ql.engine.partials import names_of
from elfmesh.ql.values.plain_ipc import ipc_to_table
from tests.ql.conftest import run

TEXT = """CREATE JOB shop.kept EVERY '1 s' KEEP PARTIALS AS
SELECT k, count(*) AS n, sum(v) AS s, avg(v) AS mean, stddev_pop(v) AS dev, min(v) AS low,
       approx_count_distinct(v) AS about, count(DISTINCT v) AS d, percentile(v, 0.5) AS middle,
       last(v) AS newest
FROM log GROUP BY k HAVING sum(v) > 100 ORDER BY n LIMIT 1"""

RECORDS = st.lists(
    st.tuples(
        st.sampled_from([None, "a", "b"]), st.one_of(st.none(), st.integers(-9, 9)), st.integers(0, 999)
    ),
    min_size=1,
    max_size=30,
)
Record = tuple[str | None, int | None, int]


def kept(interval: int, records: list[Record], agents: int = 2, text: str = TEXT) -> pa.Table:
    """The partials of one interval, of records that several agents have."""
    query = ql.Query(ql.parse(text))
    parts = []
    for agent in range(agents):
        mine = records[agent::agents]
        if not mine:
            continue
        k, v, millis = zip(*mine, strict=True)
        times = pa.array([interval * 1_000_000 + ms * 1000 for ms in millis], pa.timestamp("us", "UTC"))
        batch = pa.RecordBatch.from_arrays(
            [pa.array(k, pa.string()), pa.array(v, pa.int64()), times], names=["k", "v", "ts"]
        )
        panes = Panes(query.statement.tables, 1_000_000)
        for name, rows in query.prepare(batch).tables.items():
            panes.insert(name, np.full(rows.num_rows, interval), rows)
        window = panes.window(interval)
        assert window is not None
        parts += encode_parts(window, 1)
    clause = query.statement.job
    assert clause is not None
    manifest = new_manifest(clause, text, "local", created=0, incarnation="1")
    rows = PartialCompute().finalised(Finalise(manifest.job_id, 1, manifest, interval, (tuple(parts),))).rows
    assert set(ipc_to_table(rows).column_names) == set(query.columns)  # who reads rows sees them alone
    return ipc_to_table(partials_of(rows))


@given(st.lists(RECORDS, min_size=1, max_size=4))
def test_sums_counts_and_values_of_intervals_roll_up_exactly(batches: list[list[Record]]) -> None:
    tables = [kept(interval, records) for interval, records in enumerate(batches)]
    rows = [row for table in tables for row in table.to_pylist()]
    whole: dict[Any, list[tuple[int, int | None]]] = defaultdict(list)
    for interval, records in enumerate(batches):
        for key, value, millis in records:
            whole[key].append((interval * 1000 + millis, value))
    assert {row["k"] for row in rows} == set(whole)  # HAVING and LIMIT are about one interval's answer
    for key, found in whole.items():
        mine = [row for row in rows if row["k"] == key]
        values = [value for _, value in found if value is not None]
        assert sum(row["n"] for row in mine) == len(found)
        assert sum(row["s"] or 0 for row in mine) == sum(values)
        assert sum(row["mean_count"] for row in mine) == len(values)
        assert {v for row in mine for v in row["d_values"]} == set(values)
        counted = [pair for row in mine for pair in row["middle_values"]]
        assert sorted(v for pair in counted for v in [pair["value"]] * pair["count"]) == sorted(values)
        newest = max((row["newest_at"], row["newest"] or -99) for row in mine)
        assert newest[0] == max(at for at, _ in found) * 1000
        if values:
            n = sum(row["dev_variance_n"] for row in mine)
            total = sum(row["dev_variance_sum"] or 0 for row in mine)
            within = sum(row["dev_variance_m2"] or 0.0 for row in mine)
            means = sum(
                (row["dev_variance_sum"] ** 2) / row["dev_variance_n"]
                for row in mine
                if row["dev_variance_n"]
            )
            m2 = within + means - total * total / n
            assert math.isclose(math.sqrt(max(m2, 0.0) / n), float(np.std(values)), abs_tol=1e-6)


@given(RECORDS, st.randoms(use_true_random=False))
def test_the_same_records_give_the_same_bytes(records: list[Record], rng: Any) -> None:
    shuffled = list(records)
    rng.shuffle(shuffled)
    assert kept(3, records, 1).equals(kept(3, shuffled, 3))


def test_sketches_unite_to_the_sketch_of_everything() -> None:
    parts = [kept(at, [("a", value, 0) for value in range(at * 500, at * 500 + 700)]) for at in range(5)]
    united = run("SELECT hll_sketch_estimate(hll_union_agg(about_hll)) AS e FROM t", pa.concat_tables(parts))[
        0
    ]
    everything = kept(0, [("a", value, 0) for value in range(2700)])
    alone = run("SELECT hll_sketch_estimate(about_hll) AS e FROM t", everything)[0]
    assert united.to_pylist()[0]["e"] == alone.to_pylist()[0]["e"]
    assert abs(united.to_pylist()[0]["e"] / 2700 - 1) < 0.05


def test_an_average_has_its_columns_also_where_a_sum_shares_them() -> None:
    text = """CREATE JOB a.b EVERY '1 s' KEEP PARTIALS AS
    SELECT k, sum(v) AS s, avg(v) AS m, count(v) AS c, avg(v) AS again FROM log GROUP BY k"""
    some: list[Record] = [("a", 3, 1), ("a", 4, 2), ("b", None, 3)]
    for records in (some, []):
        table = kept(0, records, text=text)
        names = {"k", "s", "c", "m_sum", "m_count", "again_sum", "again_count"}
        assert set(table.column_names) == names
        assert len(table.column_names) == len(names)
        for name in ("m", "again"):
            assert table.column(f"{name}_sum").to_pylist() == table.column("s").to_pylist()
            assert table.column(f"{name}_count").to_pylist() == table.column("c").to_pylist()


def test_columns_are_called_after_what_shows_them() -> None:
    text = (
        "CREATE JOB a.b EVERY '1 s' KEEP PARTIALS AS SELECT k AS name, avg(v) AS mean, avg(w) AS mean_sum"
        " FROM log GROUP BY k, z HAVING max(v) > 1"
    )
    assert list(names_of(ql.parse(text)).values()) == [
        "name", "k1", "mean_sum", "mean_count", "mean_sum_sum", "mean_sum_count", "a4",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a.k FROM log a JOIN other b ON a.k = b.k",
        "SELECT k, count(*) AS n FROM log GROUP BY SESSION(ts, INTERVAL '5' SECOND), k",
        "SELECT k FROM log UNION ALL SELECT k FROM other",
    ],
)
def test_queries_of_several_steps_are_refused(query: str) -> None:
    every = "" if "SESSION" in query else "EVERY '1 s' "
    with pytest.raises(QueryError, match="KEEP PARTIALS is for a SELECT over one stream"):
        ql.parse(f"CREATE JOB a.b {every}KEEP PARTIALS AS {query}")


def test_keep_alone_is_no_option() -> None:
    with pytest.raises(QueryError, match="expected an option of the job or AS, found `KEEP`"):
        ql.parse("CREATE JOB a.b EVERY '1 s' KEEP AS SELECT count(*) AS n FROM log")
