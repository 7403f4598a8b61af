"""Content of a kept window, read by group number, sorted or not, before the window moves on.

Paper: ELF 2.2 ("flush" fetches the entire results).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from elfmesh.cbt import kernel
from elfmesh.cbt.columns import byte_layout
from elfmesh.cbt.kernel.protocol import Keys
from elfmesh.cbt.keys import KeyForm, decode
from elfmesh.cbt.laws import State
from elfmesh.cbt.partial.contents import bits_for
from elfmesh.cbt.rows import Layout, Rows, Types
from elfmesh.cbt.sorted_rows import SortedRows

_BLOCK_ROWS = 1 << 18
"""Groups per block."""

ReadGroups = Callable[[], tuple[Keys, Callable[[np.ndarray], tuple[State, ...]]]]
"""Returns the keys of all groups, and a function from positions of groups to their states."""


class SlidContent:
    """Present groups of a kept window, as a `Content`."""

    def __init__(self, layout: Layout, types: Types, form: KeyForm, rows: int, read: ReadGroups) -> None:
        self.layout = layout
        self.types = types
        self.form = form
        self.rows_max = rows
        self._read = read

    def rows(self) -> Iterator[Rows]:
        """Yield the groups in blocks of disjoint keys, unsorted.

        Raises ValueError if the window has moved on.
        """
        keys, read = self._read()
        columns = decode(keys, self.form)
        for start in range(0, len(keys), _BLOCK_ROWS):
            stop = min(start + _BLOCK_ROWS, len(keys))
            states = read(np.arange(start, stop))
            yield Rows(self.layout, stop - start, tuple(column[start:stop] for column in columns), states)

    def sorted(self) -> Iterator[SortedRows]:
        """Yield the groups as sorted blocks. Raises ValueError if the window has moved on."""
        keys, read = self._read()
        bits = bits_for(len(keys))
        order, cuts = kernel.active.sort_keys(keys, bits)
        for prefix, run in enumerate(kernel.active.front_code(keys, order, cuts)):
            if run.rows:
                states = read(order[cuts[prefix] : cuts[prefix + 1]])
                yield SortedRows(self.layout, self.form, run, states, bits, prefix)


def take_keys(keys: Keys, places: np.ndarray) -> Keys:
    buffers = [None, pa.py_buffer(keys.offsets), pa.py_buffer(keys.data)]
    taken = pa.Array.from_buffers(pa.binary(), len(keys), buffers).take(pa.array(places))
    return Keys(*byte_layout(taken))
