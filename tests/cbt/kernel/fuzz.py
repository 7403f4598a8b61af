"""Feeds the native kernel random and broken input: python -m tests.cbt.kernel.fuzz SECONDS [SEED].

Meant for a sanitized build (`make sanitize`, `make fuzz`), which stops at the first byte out of place. Where
input is whole, results are compared with those of the twin; where it is broken, nothing is asked for but a
clean refusal, or any result at all.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from elfmesh.cbt.kernel import native
from elfmesh.cbt.kernel import numpy_twin as twin
from elfmesh.cbt.kernel.protocol import Field, FieldKind, KeyColumn, Keys, Run
from tests.cbt.kernel.cases import broken_bits, keys_of, plain, run_of, texts_of

REFUSALS = (ValueError, TypeError, IndexError)


def texts(dice: random.Random) -> list[bytes]:
    """Keys that share prefixes, of any length, some of them often."""
    alphabet = dice.choice([b"ab", b"\x00\xff", b"0123456789", bytes(range(256))])
    stems = [b"", b"common/", bytes(dice.choices(alphabet, k=dice.choice([9, 254, 300, 5_000])))]
    return [
        dice.choice(stems) + bytes(dice.choices(alphabet, k=dice.choice([0, 1, 3, 8, 17])))
        for _ in range(dice.choice([0, 1, 5, 50, 400]))
    ]


def broken(dice: random.Random, array: np.ndarray) -> np.ndarray:
    """A copy with some items replaced, dropped or repeated."""
    array = array.copy()
    for _ in range(dice.choice([0, 1, 1, 2, 5])):
        if len(array) == 0:
            break
        place = dice.randrange(len(array))
        kind = dice.randrange(4)
        if kind == 0:
            array = np.delete(array, place)
        elif kind == 1:
            array = np.insert(array, place, array[place])
        else:
            span = min(1 << dice.choice([1, 4, 8, 20, 40, 62]), int(np.iinfo(array.dtype).max))
            low = 0 if array.dtype.kind == "u" else -span
            array[place] = dice.randint(low, span)
    return array


def fuzz_table(dice: random.Random) -> None:
    ours, theirs = native.HotTable(dice.getrandbits(64), dice.choice([2**31 - 1, 3_000])), twin.table(0)
    for _ in range(dice.randrange(6)):
        keys = keys_of(texts(dice), b"..")
        try:
            ids = ours.upsert(keys)
        except ValueError:
            continue
        assert ids.tolist() == theirs.upsert(keys).tolist()
        with suppress(*REFUSALS):
            ours.upsert(Keys(broken(dice, keys.offsets), keys.data))
            return  # it took them: the tables differ now
    assert texts_of(ours.keys()) == texts_of(theirs.keys())
    bits = dice.choice([0, 4, 8])
    order, cuts = ours.order(bits)
    assert order.tolist() == theirs.order(bits)[0].tolist()
    assert [plain(run) for run in ours.runs(order, cuts)] == [plain(run) for run in theirs.runs(order, cuts)]
    with suppress(*REFUSALS):
        ours.runs(broken(dice, order), broken(dice, cuts))
    if dice.random() < 0.2:
        ours.clear()
        assert ours.rows == 0


def fuzz_merge(dice: random.Random) -> None:
    runs = [run_of(native, set(texts(dice))) for _ in range(dice.choice([1, 2, 3, 8, 33]))]
    merged, maps = native.merge_runs(runs)
    expected, expected_maps = twin.merge_runs(runs)
    assert plain(merged) == plain(expected)
    assert [rows.tolist() for rows in maps] == [rows.tolist() for rows in expected_maps]
    suspects = [
        Run(max(run.rows + dice.choice([0, 0, 1, -1]), 0), run.key_bytes, run.wide, broken(dice, run.data))
        for run in runs
    ]
    for suspect in suspects:
        with suppress(*REFUSALS):
            checked = native.check_run(suspect.rows, suspect.wide, suspect.data, 1 << 24)
            assert plain(twin.check_run(suspect.rows, suspect.wide, suspect.data, 1 << 24)) == plain(checked)
        with suppress(*REFUSALS):
            native.partition_run(suspect, dice.randrange(64), dice.randrange(8))
    with suppress(*REFUSALS):
        native.merge_runs(suspects)
    fuzz_bits(dice, merged)


def fuzz_bits(dice: random.Random, run: Run) -> None:
    letters = np.frombuffer(bytes(dice.choices(b"0123abcdxyz", k=len(run.data) - 2 * run.rows)), np.uint8)
    for data in (run.data, np.concatenate([run.data[: 2 * run.rows], letters])):
        own = Run(run.rows, run.key_bytes, run.wide, data)
        packed = native.pack_bits(own)
        assert packed == twin.pack_bits(own)
        if packed is not None:
            assert native.unpack_bits(run.rows, packed) == data.tobytes()
            with suppress(*REFUSALS):
                native.unpack_bits(*broken_bits(dice, run.rows, packed))


def fuzz_keys(dice: random.Random) -> None:
    keys = keys_of(texts(dice), bytes(dice.randrange(9)), bytes(dice.randrange(9)))
    assert native.hash_keys(keys).tolist() == twin.hash_keys(keys).tolist()
    rows = len(keys)
    columns = [
        KeyColumn(
            -1, dice.random() < 0.5, None, keys, np.array(dice.choices([True, False], k=rows), np.bool_)
        ),
        KeyColumn(8, False, np.arange(rows) * dice.getrandbits(30)),
        KeyColumn(16, True, np.arange(2 * rows).reshape(rows, 2)),
        KeyColumn(4, True, np.arange(rows, dtype=np.int32)),
        KeyColumn(-1, True, None, keys),
    ]
    dice.shuffle(columns)
    columns = columns[: dice.randrange(5)]
    encoded = native.encode_keys(columns, rows)
    assert texts_of(encoded) == texts_of(twin.encode_keys(columns, rows))
    shape = [(column.width, column.nullable) for column in columns]
    native.decode_keys(encoded, shape)
    with suppress(*REFUSALS):
        native.decode_keys(Keys(encoded.offsets, broken(dice, encoded.data)), shape)
    with suppress(*REFUSALS):
        native.decode_keys(Keys(broken(dice, encoded.offsets), encoded.data), shape)
    with suppress(*REFUSALS):
        native.encode_keys([KeyColumn(-1, False, None, Keys(broken(dice, keys.offsets), keys.data))], rows)
    for function in (native.hash_keys, lambda suspect: native.sort_keys(suspect, 4)):
        with suppress(*REFUSALS):
            function(Keys(broken(dice, keys.offsets), broken(dice, keys.data)))


def fuzz_scatters(dice: random.Random) -> None:
    groups, rows = dice.choice([1, 2, 100]), dice.choice([0, 1, 7, 300])
    ids = np.array(dice.choices(range(groups), k=rows), np.int64)
    values = np.array([dice.randint(-(2**63), 2**63 - 1) for _ in range(rows)], np.int64)
    for ours, theirs in (
        (native.add, twin.add),
        (native.least, twin.least),
        (native.greatest, twin.greatest),
    ):
        mine, other = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
        ours(ids, values, mine)
        theirs(ids, values, other)
        assert mine.tolist() == other.tolist()
        with suppress(*REFUSALS):
            ours(broken(dice, ids), values, mine)
    floats = values.view(np.float64)
    for ours, theirs in (
        (native.least_floats, twin.least_floats),
        (native.greatest_floats, twin.greatest_floats),
    ):
        mine, other = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
        ours(ids, floats, mine)
        theirs(ids, floats, other)
        assert mine.tolist() == other.tolist()
        with suppress(*REFUSALS):
            ours(broken(dice, ids), floats, mine)
    limbs, lowest = dice.choice([1, 2, 5, 68]), dice.randint(-36, 34)
    if dice.random() < 0.8:
        floats = np.nan_to_num(floats, nan=1.5, posinf=0.0, neginf=-0.0)
    mine, other = np.zeros((groups, 1 + limbs), np.int64), np.zeros((groups, 1 + limbs), np.int64)
    assert native.add_floats(ids, floats, mine, lowest) == twin.add_floats(ids, floats, other, lowest)
    assert mine.tolist() == other.tolist()
    with suppress(*REFUSALS):
        native.add_floats(broken(dice, ids), floats, mine, lowest)


def fuzz_fields(dice: random.Random) -> None:
    groups, rows, width = dice.choice([1, 2, 100]), dice.choice([0, 1, 7, 300]), dice.choice([1, 2, 7])
    ids = np.array(dice.choices(range(groups), k=rows), np.int64)
    values = np.array([dice.randint(-(2**63), 2**63 - 1) for _ in range(rows)], np.int64)
    cents = np.array([dice.randint(-(10**9), 10**9) / 100 for _ in range(rows)], np.float64).view(np.int64)
    fields: list[Field] = []
    place = 0
    while place < width:  # fields that overlap have no defined content
        kind = dice.choice(list(FieldKind) if place + 1 < width else [FieldKind.COUNT, FieldKind.SUM])
        taken = cents if kind == FieldKind.FLOAT_SUM else values
        fields.append((kind, place, taken, dice.randint(-70, -60)))
        place += 1 + (kind == FieldKind.FLOAT_SUM)
    mine, other = np.zeros((groups, width), np.int64), np.zeros((groups, width), np.int64)
    native.add_fields(ids, mine, fields)
    twin.add_fields(ids, other, fields)
    assert mine.tolist() == other.tolist()
    assert native.take_rows(mine, ids).tolist() == twin.take_rows(mine, ids).tolist()
    assert native.span_floats(values.view(np.float64)) == twin.span_floats(values.view(np.float64))
    kind, place, lowest = dice.choice(list(FieldKind)), dice.randint(-9, 9), dice.randint(-2000, 2000)
    with suppress(*REFUSALS):
        native.add_fields(broken(dice, ids), mine, fields)
    with suppress(*REFUSALS):
        native.add_fields(ids, mine, [(kind, place, broken(dice, values), lowest)])
    with suppress(*REFUSALS):
        native.take_rows(mine, broken(dice, ids))


def fuzz_columns(dice: random.Random) -> None:
    rows, span = dice.choice([1, 7, 600, 1_500]), 1 << dice.choice([0, 7, 20, 40, 62])
    values = np.array([dice.randint(-span, span) for _ in range(rows)], np.int64)
    order = np.array(dice.sample(range(rows), rows)) if dice.random() < 0.5 else None
    cuts = np.array(sorted(dice.choices(range(rows + 1), k=4)))
    width, base, chunks = native.pack_ints(values, cuts, order)
    assert (width, base, chunks) == twin.pack_ints(values, cuts, order)
    parts = [(int(n), width, base, chunk) for n, chunk in zip(np.diff(cuts), chunks, strict=True)]
    assert native.unpack_ints(parts).tolist() == twin.unpack_ints(parts).tolist()
    with suppress(*REFUSALS):
        native.pack_ints(values, broken(dice, cuts), None if order is None else broken(dice, order))
    with suppress(*REFUSALS):
        native.unpack_ints(
            [(n + dice.choice([0, 1, -1]), dice.randrange(-1, 10), base, c) for n, _, _, c in parts]
        )
    floats = np.round(values / dice.choice([1, 100, 10**6, 3]), dice.randrange(8))
    ours, theirs = native.scale_floats(floats), twin.scale_floats(floats)
    assert (ours is None) == (theirs is None)
    limbs = {number: values >> dice.randrange(40) for number in dice.sample(range(-5, 9), dice.randint(1, 6))}
    mine, other = native.short_sums(limbs), twin.short_sums(limbs)
    assert (mine is None) == (other is None)
    if mine is not None and other is not None:
        assert (mine.digits, mine.unit) == (other.digits, other.unit)
        assert mine.near.tolist() == other.near.tolist()
        assert mine.rest.tolist() == other.rest.tolist()


TARGETS: list[Callable[[random.Random], None]] = [
    fuzz_table,
    fuzz_merge,
    fuzz_keys,
    fuzz_scatters,
    fuzz_fields,
    fuzz_columns,
]


def main(seconds: float, seed: int) -> None:
    """Fuzz; on a terminal the seed stands there, so that a crash can be repeated from it."""
    end, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        dice = random.Random(seed + rounds)
        target = TARGETS[rounds % len(TARGETS)]
        if sys.stderr.isatty():
            print(f"{target.__name__} seed {seed + rounds}".ljust(40), end="\r", file=sys.stderr, flush=True)
        try:
            target(dice)
        except BaseException:
            print(f"{target.__name__} fails with seed {seed + rounds}", file=sys.stderr)
            raise
        rounds += 1
    print(f"{rounds} rounds from seed {seed}, nothing found")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
