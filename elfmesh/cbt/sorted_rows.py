"""PAO rows sorted by key bytes, with front-coded keys, as trees and the wire contain them.

Blocks are merged, split and thinned without decoding a key. Keys ascend strictly by their bytes. The
placement hashes of all keys begin with the `bits` bits of `prefix`.

Paper: ELF 2.2. Deviation: runs in the paper are sorted by hash and merged by comparing hashes. Sorted by key
bytes, adjacent keys share prefixes, which front-coding stores once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct

from elfmesh.cbt import kernel
from elfmesh.cbt.kernel.protocol import Run
from elfmesh.cbt.keys import TABLE_SEED, KeyForm, decode, encode, form_of, unify_forms
from elfmesh.cbt.laws import LAWS, State
from elfmesh.cbt.rows import Layout, Rows, Types, combine

SORTED_OVERHEAD_BYTES = 600
"""Python objects of one block (measured for two columns)."""


class SortedRows(Struct, frozen=True):
    """PAO rows of one layout and one form, ordered by key bytes, each key once.

    `prefix` is a number of `bits` bits (a multiple of 4), with which the placement hash of every key begins.
    """

    layout: Layout
    form: KeyForm
    run: Run
    states: tuple[State, ...]
    bits: int = 0
    prefix: int = 0

    @property
    def count(self) -> int:
        return self.run.rows

    @property
    def types(self) -> Types:
        return (*self.form.types, *(state.type for state in self.states))

    @property
    def nbytes(self) -> int:
        return self.run.nbytes + sum(state.nbytes for state in self.states) + SORTED_OVERHEAD_BYTES


def merge_sorted(blocks: Sequence[SortedRows]) -> SortedRows:
    """Merge all rows of at least one block by key. Cost: one pass over the coded keys, one over the states.

    Blocks of different forms are converted to a common form first. They must then contain all keys (bits ==
    0), because the placement hash of a key depends on the form; otherwise ValueError is raised.
    """
    first = blocks[0]
    if any(
        (block.layout, block.bits, block.prefix) != (first.layout, first.bits, first.prefix)
        for block in blocks
    ):
        raise ValueError("blocks of different layouts or places cannot be merged")
    blocks = _alike(blocks)
    if len(blocks) == 1:
        return blocks[0]
    run, maps = kernel.active.merge_runs([block.run for block in blocks])
    states = []
    for place, (_, kind) in enumerate(first.layout.aggregates):
        accumulator = LAWS[kind].accumulator(blocks[0].states[place].type)
        for block, ids in zip(blocks, maps, strict=True):
            accumulator.merge(block.states[place], ids, run.rows)
        states.append(accumulator.freeze(run.rows))
    return SortedRows(first.layout, blocks[0].form, run, tuple(states), first.bits, first.prefix)


def _alike(blocks: Sequence[SortedRows]) -> Sequence[SortedRows]:
    form, types = blocks[0].form, blocks[0].types
    names = blocks[0].layout.keys
    for block in blocks[1:]:
        form = unify_forms(form, block.form, names)
        types = block.layout.unify(types, block.types)
    if any(block.bits and block.count and not form.has_bytes_of(block.form) for block in blocks):
        raise ValueError(
            "blocks that are placed by keys of different forms cannot be merged: reform them first"
        )
    return [reform(block, form, types) for block in blocks]


def partition_sorted(rows: SortedRows, bits: int) -> list[SortedRows]:
    """Split by the next `bits` bits of the placement hash into 2**bits blocks, some of them empty."""
    runs, order = kernel.active.partition_run(rows.run, rows.bits, bits)
    states = [state.take(order) for state in rows.states]
    cuts = np.cumsum([0, *(run.rows for run in runs)]).tolist()
    return [
        SortedRows(
            rows.layout,
            rows.form,
            run,
            tuple(state.slice(start, stop) for state in states),
            rows.bits + bits,
            (rows.prefix << bits) + part,
        )
        for part, (run, (start, stop)) in enumerate(zip(runs, pairwise(cuts), strict=True))
    ]


def sort_rows(rows: Rows, bits: int = 0, form: KeyForm | None = None) -> list[SortedRows]:
    """Sort rows and split them by `bits` bits (at most 16) of the placement hash; empty parts are omitted."""
    if rows.count == 0:
        return []
    form = form or form_of(rows.keys)
    keys = encode(rows.keys, form, rows.count)
    table = kernel.active.table(TABLE_SEED)
    ids = table.upsert(keys)
    if table.rows < rows.count:
        states = tuple(LAWS[state.kind].merge([state], ids, table.rows) for state in rows.states)
    else:
        states = rows.states
    order, cuts = table.order(bits)
    states = tuple(state.take(order) for state in states)
    out = []
    for part, (run, (start, stop)) in enumerate(
        zip(table.runs(order, cuts), pairwise(cuts.tolist()), strict=True)
    ):
        if run.rows:
            own = tuple(state.slice(start, stop) for state in states)
            out.append(SortedRows(rows.layout, form, run, own, bits, part))
    return out


def to_rows(rows: SortedRows) -> Rows:
    keys = decode(kernel.active.decode_run(rows.run), rows.form)
    return Rows(rows.layout, rows.count, keys, rows.states)


def reform(rows: SortedRows, form: KeyForm, types: Types) -> SortedRows:
    """Convert the rows to a wider form and wider types.

    If this changes the bytes of keys, it changes their order and placement, and may make different keys equal
    (an integer key that becomes a rounded float). The result then has bits == 0.
    """
    if rows.form == form and rows.types == types:
        return rows
    if rows.count == 0:
        return empty_sorted(rows.layout, form, types, rows.bits, rows.prefix)
    if form.has_bytes_of(rows.form):
        wide = types[len(form.types) :]
        states = tuple(
            LAWS[state.kind].promote(state, data_type)
            for state, data_type in zip(rows.states, wide, strict=True)
        )
        return SortedRows(rows.layout, form, rows.run, states, rows.bits, rows.prefix)
    (block,) = sort_rows(combine([to_rows(rows)], types), 0, form)
    return block


def empty_sorted(layout: Layout, form: KeyForm, types: Types, bits: int = 0, prefix: int = 0) -> SortedRows:
    (run,) = kernel.active.front_code(encode([], form, 0), np.zeros(0, np.int64), np.zeros(2, np.int64))
    states = tuple(
        LAWS[kind].accumulator(data_type).freeze(0)
        for (_, kind), data_type in zip(layout.aggregates, types[len(form.types) :], strict=True)
    )
    return SortedRows(layout, form, run, states, bits, prefix)
