"""A sliding window over many keys, slide by slide: `elf` has panes, the others recompute.

    python -m benchmarks.peers.slide VARIANT STREAM invertible|four PANES PANE_ROWS SLIDES

`elf` slides; `tree` groups the window's records again in our tree; `records` does so in pyarrow; `panes`
keeps the groups of each pane and groups those in pyarrow, the cheapest way without state between windows.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import data, meter
from benchmarks.peers.groupby_elf import FOUR
from benchmarks.peers.groupby_pyarrow import AGAIN, FIRST
from elfmesh.cbt import CompressedBufferTree, Panes, decode_partial, encode_partial, finish

SECOND_US = 1_000_000
NAMES = {"invertible": ("n", "s"), "four": ("n", "s", "lo", "hi")}
TABLE = "windows"


@dataclass(frozen=True, slots=True)
class Spec:
    """What the panes are told of their table."""

    name: str
    keys: tuple[str, ...]
    aggregates: dict[str, tuple[str, str | None]]


class Sliding:
    """Our panes. A slide brings the window up to date; reading it all out as bytes is timed apart."""

    def __init__(self, aggregates: str, panes: int) -> None:
        self._names = NAMES[aggregates]
        spec = Spec(TABLE, ("k",), {name: FOUR[name] for name in self._names})
        self._panes = Panes([spec], panes * SECOND_US, SECOND_US)
        self.encode_s: list[float] = []

    def enter(self, number: int, batch: pa.RecordBatch) -> None:
        self._panes.insert(TABLE, np.full(len(batch), number, np.int64), batch)

    def window(self, number: int) -> object:
        self._panes.drop_below(number)
        return self._panes.window(number)

    def table(self, window: Any) -> pa.Table:
        cpu = time.process_time()
        encoded = encode_partial(window)
        self.encode_s.append(time.process_time() - cpu)
        return finish(decode_partial(encoded))[TABLE]


class Recomputing:
    """Keeps what a window is made of and makes each window again."""

    def __init__(
        self,
        panes: int,
        keep: Callable[[pa.RecordBatch], object],
        group: Callable[[list[object]], pa.Table],
    ) -> None:
        self._kept: deque[object] = deque(maxlen=panes)
        self._keep, self._group = keep, group

    def enter(self, _number: int, batch: pa.RecordBatch) -> None:
        self._kept.append(self._keep(batch))

    def window(self, _number: int) -> object:
        return self._group(list(self._kept))

    def table(self, window: Any) -> pa.Table:
        return window


def _make(variant: str, aggregates: str, panes: int) -> Sliding | Recomputing:
    names = NAMES[aggregates]

    def group(table: pa.Table, how: list[tuple[str, str]]) -> pa.Table:
        grouped = table.group_by("k", use_threads=False).aggregate(how[: len(names)])
        return grouped.rename_columns(["k", *names])

    def records(batches: list[object]) -> pa.Table:
        return group(pa.Table.from_batches(batches), FIRST)

    def tree(batches: list[object]) -> pa.Table:
        subject = CompressedBufferTree(["k"], {name: FOUR[name] for name in names})
        for batch in batches:
            subject.insert(batch)
        return subject.flush()

    if variant == "elf":
        return Sliding(aggregates, panes)
    if variant == "panes":
        return Recomputing(
            panes,
            lambda batch: group(pa.Table.from_batches([batch]), FIRST),
            lambda tables: group(pa.concat_tables(tables), AGAIN),
        )
    return Recomputing(panes, lambda batch: batch, tree if variant == "tree" else records)


def main(variant: str, stream: str, aggregates: str, panes: int, rows: int, slides: int) -> None:
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    whole = pa.Table.from_batches(data.batches(Path(stream)))
    subject = _make(variant, aggregates, panes)

    def enter(number: int) -> float:
        batch = whole.slice(number * rows, rows).combine_chunks().to_batches()[0]
        cpu = time.process_time()
        subject.enter(number, batch)
        return time.process_time() - cpu

    entering = [enter(number) for number in range(panes - 1)]
    windows = []
    for number in range(slides + 1):
        entering.append(enter(panes - 1 + number))
        cpu = time.process_time()
        window = subject.window(number)
        windows.append(time.process_time() - cpu)
    table = subject.table(window)
    report = {
        "first_s": windows[0],
        "window_s": statistics.median(windows[1:]),
        "worst_s": max(windows[1:]),
        "enter_s": statistics.median(entering),
        "encode_s": subject.encode_s[0] if isinstance(subject, Sliding) else 0.0,
        "held_bytes": meter.memory("RssAnon"),
        "keys": table.num_rows,
        "checksum": f"{meter.checksum(table.select(['k', *NAMES[aggregates]])):016x}",
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], *map(int, sys.argv[4:7]))
