"""The winning record of each group."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from elfmesh.cbt.laws import LAWS


def test_strings_that_share_long_beginnings_are_distinguished() -> None:
    words = ["x" * n + tail for n in (7, 8, 9, 16, 17, 200) for tail in ("", "\0", "a", "\0\0", "é", "z")]
    rng = np.random.default_rng(1)
    for kind, pick in (("min", min), ("max", max)):
        accumulator = LAWS[kind].accumulator(pa.string())
        ids = rng.integers(0, 5, 4000)
        chosen = rng.integers(0, len(words), 4000)
        for start in range(0, 4000, 100):
            part = slice(start, start + 100)
            accumulator.add(pa.array([words[i] for i in chosen[part]]), ids[part], 5)
        got = LAWS[kind].finish(accumulator.freeze(5), 5).to_pylist()
        assert got == [pick(words[i] for i in chosen[ids == group]) for group in range(5)]
        assert accumulator.nbytes < 20_000  # bytes of former winners are dropped
