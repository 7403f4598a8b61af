"""`nbytes` against what the operating system says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from elfmesh.cbt import CompressedBufferTree, kernel
from elfmesh.cbt.kernel import numpy_twin
from tests.cbt import memory_probe

ROOT = Path(__file__).parents[3]


TRIES = 3


def probe(aggregates: str, rows: int, keys: int) -> tuple[int, int]:
    """Bytes that a tree says it holds, and by which the process has grown."""
    if not Path("/proc/self/status").exists():
        pytest.skip("this operating system does not say what a process holds")
    command = [sys.executable, memory_probe.__file__, aggregates, str(rows), str(keys)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    reported, grown, *_ = map(int, done.stdout.split())
    return reported, grown


@pytest.mark.parametrize(
    ("aggregates", "rows", "keys"),
    [("count", 300_000, 100_000), ("count", 400_000, 400_000), ("four", 400_000, 400_000)],
    ids=["hot", "wide", "four aggregates"],
)
def test_nbytes_is_what_the_process_grows_by(aggregates: str, rows: int, keys: int) -> None:
    reported, grown = probe(aggregates, rows, keys)
    # Small trees: a root that has just grown has memory that was never touched.
    assert abs(reported - grown) < (0.35 if kernel.active is numpy_twin else 0.25) * grown


@pytest.mark.slow
@pytest.mark.parametrize("aggregates", ["count", "four"])
def test_nbytes_is_true_to_a_tenth_for_two_million_keys(aggregates: str) -> None:
    # Now and then a process finds room in pages that it had before, and has grown by too little.
    seen = []
    for _ in range(TRIES):
        reported, grown = probe(aggregates, 2_000_000, 2_000_000)
        seen.append(reported / grown)
        if abs(reported - grown) < 0.1 * grown:
            return
    pytest.fail(f"nbytes to the growth of the process: {seen}")


def test_small_trees_are_small() -> None:
    tree = CompressedBufferTree(["k"], memory_probe.FOUR)
    assert tree.nbytes < 2 << 10
    tree.insert(pa.record_batch({"k": [f"/product/{i}" for i in range(100)], "v": [0.25] * 100}))
    # The twin keeps its keys as Python objects.
    assert tree.nbytes < (24 << 10 if kernel.active is numpy_twin else 16 << 10)
    tree.push_down()
    assert tree.nbytes < 3 << 10
