"""Run as a program: builds a tree and prints what it says it holds and by how much the process has grown."""

from __future__ import annotations

import ctypes
import gc
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from elfmesh.cbt import CompressedBufferTree

BATCH_ROWS = 1 << 15
FOUR = {"n": ("count", None), "s": ("sum", "v"), "lo": ("min", "v"), "hi": ("max", "v")}


def anonymous_bytes() -> int:
    """Resident memory of this process that no file is behind, with nothing held back by the allocators."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the kernel does not say")


def batches(rows: int, keys: int) -> list[pa.RecordBatch]:
    rng = np.random.default_rng(1)
    out = []
    for start in range(0, rows, BATCH_ROWS):
        count = min(BATCH_ROWS, rows - start)
        numbers = rng.integers(0, keys, count) if keys < rows else np.arange(start, start + count)
        # An odd multiplier scatters the digits, so that keys do not share more than random ones do.
        texts = [f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}"[:12] for number in numbers.tolist()]
        values = np.round(rng.uniform(0, 1000, count), 2)
        out.append(pa.record_batch({"k": texts, "v": values}))
    return out


def main(aggregates: str, rows: int, keys: int) -> None:
    plan = FOUR if aggregates == "four" else {"n": FOUR["n"]}
    given = batches(rows, keys)
    # Whatever is only set up once is set up here.
    warm = CompressedBufferTree(["k"], plan)
    for batch in given[:2]:
        warm.insert(batch)
    warm.push_down()
    warm.flush()
    del warm
    before = anonymous_bytes()
    tree = CompressedBufferTree(["k"], plan)
    for batch in given:
        tree.insert(batch)
    print(tree.nbytes, anonymous_bytes() - before, tree.rows, tree.depth)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
