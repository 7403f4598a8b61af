"""DuckDB: `upsert` into a table with a primary key, `periodic` regrouping, and its own `oneshot` GROUP BY."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb
import pyarrow as pa

from benchmarks import meter
from benchmarks.peers.periodic import PENDING_ROWS_MIN, PENDING_SHARE

TYPES = {"n": "BIGINT", "s": "DOUBLE", "lo": "DOUBLE", "hi": "DOUBLE"}
FIRST = {"n": "count(*)", "s": "sum(v)", "lo": "min(v)", "hi": "max(v)"}
AGAIN = {"n": "sum(n)::BIGINT", "s": "sum(s)", "lo": "min(lo)", "hi": "max(hi)"}
UPDATE = {
    "n": "n = n + excluded.n",
    "s": "s = s + excluded.s",
    "lo": "lo = least(lo, excluded.lo)",
    "hi": "hi = greatest(hi, excluded.hi)",
}


class Database:
    def __init__(self, aggregates: str, key: str) -> None:
        self.names = meter.AGGREGATES[aggregates]
        self.connection = duckdb.connect()
        self.connection.execute("SET threads = 1; SET preserve_insertion_order = false")
        columns = ", ".join(f"{name} {TYPES[name]}" for name in self.names)
        self.connection.execute(f"CREATE TABLE groups (k VARCHAR {key}, {columns})")

    def select(self, expressions: dict[str, str], source: str) -> str:
        columns = ", ".join(f"{expressions[name]} AS {name}" for name in self.names)
        return f"SELECT k, {columns} FROM {source} GROUP BY k"

    def fetch(self, query: str) -> pa.Table:
        out = self.connection.sql(query).to_arrow_table()
        return out if isinstance(out, pa.Table) else out.read_all()


class Upsert(Database):
    def __init__(self, aggregates: str) -> None:
        super().__init__(aggregates, "PRIMARY KEY")
        updates = ", ".join(UPDATE[name] for name in self.names)
        self._insert = (
            f"INSERT INTO groups {self.select(FIRST, 'batch')} ON CONFLICT (k) DO UPDATE SET {updates}"
        )

    def insert(self, batch: pa.RecordBatch) -> None:
        self.connection.register("batch", batch)
        self.connection.execute(self._insert)

    def result(self) -> pa.Table:
        return self.fetch("FROM groups")


class PeriodicTable(Database):
    def __init__(self, aggregates: str) -> None:
        super().__init__(aggregates, "")
        self._pending_rows = self._groups = 0

    def insert(self, batch: pa.RecordBatch) -> None:
        self.connection.register("batch", batch)
        self.connection.execute(f"INSERT INTO groups {self.select(FIRST, 'batch')}")
        self._pending_rows += len(batch)
        if self._pending_rows > max(PENDING_ROWS_MIN, PENDING_SHARE * self._groups):
            self._compact()

    def result(self) -> pa.Table:
        self._compact()
        return self.fetch("FROM groups")

    def _compact(self) -> None:
        self.connection.execute(f"CREATE OR REPLACE TABLE again AS {self.select(AGAIN, 'groups')}")
        self.connection.execute("DROP TABLE groups")
        self.connection.execute("ALTER TABLE again RENAME TO groups")
        self._pending_rows = 0
        self._groups = self.connection.execute("SELECT count(*) FROM groups").fetchall()[0][0]


class OneShot(Database):
    def __init__(self, aggregates: str) -> None:
        super().__init__(aggregates, "")

    def run(self, batches: Sequence[pa.RecordBatch]) -> pa.Table:
        def stream() -> Iterator[pa.RecordBatch]:
            yield from batches

        reader = pa.RecordBatchReader.from_batches(batches[0].schema, stream())
        self.connection.register("stream", reader)
        return self.fetch(self.select(FIRST, "stream"))


def make(variant: str, aggregates: str) -> meter.GroupBy | meter.OneShot:
    if variant == "upsert":
        return Upsert(aggregates)
    return PeriodicTable(aggregates) if variant == "periodic" else OneShot(aggregates)


if __name__ == "__main__":
    meter.main(make)
