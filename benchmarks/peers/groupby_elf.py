"""Our own tree as a contestant, through its public interface; ELF_KERNEL chooses the kernel."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from benchmarks import data, meter
from elfmesh.cbt import CompressedBufferTree

FOUR = {"n": ("count", None), "s": ("sum", "v"), "lo": ("min", "v"), "hi": ("max", "v")}


class Tree:
    """`tree`, or `spill:BYTES`: the same under a memory budget, the rest of the state in a file."""

    def __init__(self, variant: str, aggregates: str) -> None:
        spec = {name: FOUR[name] for name in meter.AGGREGATES[aggregates]}
        self._tree = CompressedBufferTree(["k"], spec, **_options(variant))

    def insert(self, batch: pa.RecordBatch) -> None:
        self._tree.insert(batch)

    def result(self) -> pa.Table:
        return self._tree.flush()

    @property
    def nbytes(self) -> int:
        return self._tree.nbytes


def _options(variant: str) -> dict[str, Any]:
    if variant == "tree":
        return {}
    from elfmesh.cbt.budget import MemoryBudget
    from elfmesh.storage.spill import SpillStore

    limit = int(variant.removeprefix("spill:"))
    return {"budget": MemoryBudget(limit, SpillStore(data.directory()))}


if __name__ == "__main__":
    meter.main(Tree)
