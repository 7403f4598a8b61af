"""polars, incrementally: eager, or lazy on its streaming engine."""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from benchmarks import meter
from benchmarks.peers.periodic import Periodic


class Polars(Periodic):
    def __init__(self, variant: str, aggregates: str) -> None:
        super().__init__(aggregates)
        self._lazy = variant == "lazy"
        value = pl.col("v")
        first = [pl.len().cast(pl.Int64).alias("n"), value.sum().alias("s")]
        first += [value.min().alias("lo"), value.max().alias("hi")]
        again = [pl.col("n").sum(), pl.col("s").sum(), pl.col("lo").min(), pl.col("hi").max()]
        columns = len(meter.AGGREGATES[aggregates])
        self._first, self._again = first[:columns], again[:columns]

    def lift(self, batch: pa.RecordBatch) -> pl.DataFrame:
        return pl.DataFrame(pl.from_arrow(batch)).group_by("k").agg(self._first)

    def regroup(self, frames: list[pl.DataFrame]) -> pl.DataFrame:
        whole = pl.concat(frames, rechunk=False)
        if self._lazy:
            return whole.lazy().group_by("k").agg(self._again).collect(engine="streaming")
        return whole.group_by("k").agg(self._again)

    def table(self, frame: pl.DataFrame) -> pa.Table:
        return frame.to_arrow()


if __name__ == "__main__":
    meter.main(Polars)
