"""pandas, incrementally."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa

from benchmarks import meter
from benchmarks.peers.periodic import Periodic


class Pandas(Periodic):
    def __init__(self, _variant: str, aggregates: str) -> None:
        super().__init__(aggregates)
        first = {"n": ("v", "size"), "s": ("v", "sum"), "lo": ("v", "min"), "hi": ("v", "max")}
        again = {"n": ("n", "sum"), "s": ("s", "sum"), "lo": ("lo", "min"), "hi": ("hi", "max")}
        names = meter.AGGREGATES[aggregates]
        self._first = {name: first[name] for name in names}
        self._again = {name: again[name] for name in names}

    def lift(self, batch: pa.RecordBatch) -> pd.DataFrame:
        return batch.to_pandas().groupby("k", sort=False, as_index=False).agg(**self._first)

    def regroup(self, frames: list[pd.DataFrame]) -> pd.DataFrame:
        whole = pd.concat(frames, ignore_index=True)
        return whole.groupby("k", sort=False, as_index=False).agg(**self._again)

    def table(self, frame: pd.DataFrame) -> pa.Table:
        return pa.Table.from_pandas(frame, preserve_index=False)


if __name__ == "__main__":
    meter.main(Pandas)
