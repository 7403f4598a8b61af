"""Python's own: `dict` (key -> count, or a list of four) and `Counter`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from benchmarks import meter


class Dict:
    def __init__(self, _variant: str, aggregates: str) -> None:
        self._names = meter.AGGREGATES[aggregates]
        self._groups: dict[str, Any] = {}
        self.insert = self._count if aggregates == "count" else self._four

    def _count(self, batch: pa.RecordBatch) -> None:
        groups, get = self._groups, self._groups.get
        for key in batch.column(0).to_pylist():
            groups[key] = get(key, 0) + 1

    def _four(self, batch: pa.RecordBatch) -> None:
        groups, get = self._groups, self._groups.get
        for key, value in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            state = get(key)
            if state is None:
                groups[key] = [1, value, value, value]
                continue
            state[0] += 1
            state[1] += value
            if value < state[2]:
                state[2] = value
            elif value > state[3]:
                state[3] = value

    def result(self) -> pa.Table:
        keys = pa.array(list(self._groups), pa.string())
        if len(self._names) == 1:
            return pa.table({"k": keys, "n": list(self._groups.values())})
        columns = zip(*self._groups.values(), strict=True)
        return pa.table({"k": keys, **dict(zip(self._names, map(list, columns), strict=True))})


class Counting:
    def __init__(self, _variant: str, aggregates: str) -> None:
        if aggregates != "count":
            raise SystemExit("Counter counts only")
        self._counter: Counter[str] = Counter()

    def insert(self, batch: pa.RecordBatch) -> None:
        self._counter.update(batch.column(0).to_pylist())

    def result(self) -> pa.Table:
        return pa.table({"k": list(self._counter), "n": list(self._counter.values())})


def make(variant: str, aggregates: str) -> meter.GroupBy:
    return Counting(variant, aggregates) if variant == "counter" else Dict(variant, aggregates)


if __name__ == "__main__":
    meter.main(make)
