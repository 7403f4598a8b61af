"""Splitting of sorted rows over the trees of a job, by a hash of their group keys.

Equal keys go to the same part on every agent; an integer goes to the part of the equal float.

Paper: ELF 2.3, Figure 6 (m trees over hash ranges).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from elfmesh.cbt import kernel
from elfmesh.cbt.kernel.placement import hash_rows
from elfmesh.cbt.keys import decode
from elfmesh.cbt.sorted_rows import SortedRows

SPLIT_SEED = 0x656C666D657368
"""Seed of the hash, part of the protocol."""


def split_sorted(rows: SortedRows, shared: Sequence[str], parts: int) -> list[SortedRows]:
    """Split rows by the hash of the key columns `shared`; some parts may have no rows.

    Part j has the hashes in [ceil(j * 2**64 / parts), ceil((j + 1) * 2**64 / parts)). Cost: a decoding and
    hashing of the keys, and a copy of each row.
    """
    keys = kernel.active.decode_run(rows.run)
    columns = decode(keys, rows.form)
    places = [rows.layout.keys.index(name) for name in shared]
    hashes = hash_rows([columns[place] for place in places], rows.count, SPLIT_SEED)
    bounds = np.array([-(-(part << 64) // parts) for part in range(1, parts)], np.uint64)
    part_of = np.searchsorted(bounds, hashes, side="right")
    order = np.argsort(part_of, kind="stable")  # stable, so that keys still ascend within a part
    cuts = np.searchsorted(part_of[order], np.arange(parts + 1))
    runs = kernel.active.front_code(keys, order, cuts)
    states = [state.take(order) for state in rows.states]
    return [
        SortedRows(
            rows.layout,
            rows.form,
            run,
            tuple(state.slice(start, stop) for state in states),
            rows.bits,
            rows.prefix,
        )
        for run, (start, stop) in zip(runs, pairwise(cuts.tolist()), strict=True)
    ]
