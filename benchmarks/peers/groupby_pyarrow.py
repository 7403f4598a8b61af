"""pyarrow's `Table.group_by`, incrementally."""

from __future__ import annotations

import pyarrow as pa

from benchmarks import meter
from benchmarks.peers.periodic import Periodic

FIRST = [("k", "count"), ("v", "sum"), ("v", "min"), ("v", "max")]
AGAIN = [("n", "sum"), ("s", "sum"), ("lo", "min"), ("hi", "max")]


class Pyarrow(Periodic):
    def __init__(self, _variant: str, aggregates: str) -> None:
        super().__init__(aggregates)
        self._names = ["k", *meter.AGGREGATES[aggregates]]

    def lift(self, batch: pa.RecordBatch) -> pa.Table:
        return self._group(pa.Table.from_batches([batch]), FIRST)

    def regroup(self, frames: list[pa.Table]) -> pa.Table:
        return self._group(pa.concat_tables(frames), AGAIN)

    def table(self, frame: pa.Table) -> pa.Table:
        return frame

    def _group(self, table: pa.Table, aggregations: list[tuple[str, str]]) -> pa.Table:
        grouped = table.group_by("k", use_threads=False).aggregate(aggregations[: len(self._names) - 1])
        return grouped.rename_columns(self._names)


if __name__ == "__main__":
    meter.main(Pyarrow)
