"""The numpy twin against plain Python: byte strings in lists, sorted and merged as Python does."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elfmesh.cbt.kernel import numpy_twin as twin
from elfmesh.cbt.kernel.protocol import KEY_BYTES_MAX, KeyColumn, KeyOverflow, Keys, Run
from elfmesh.cbt.sums.floatsum import LIMB_MIN, exact

SHORT = st.binary(max_size=4)
NESTED = st.tuples(st.sampled_from([b"", b"shared", b"shared/prefix/of/" * 20]), st.binary(max_size=12)).map(
    b"".join
)
ALIKE = st.text("\0\xff", max_size=20).map(lambda text: text.encode("latin-1"))
KEY = SHORT | NESTED | ALIKE
KEYS = st.lists(KEY, max_size=40)
DISTINCT = st.lists(KEY, max_size=40, unique=True)
LONG = [b"x" * 254, b"x" * 255, b"x" * 256, b"x" * 257, b"x" * 3000, b"", b"\0", b"x" * 600 + b"\0"]


def keys_of(texts: list[bytes], slack: int = 0) -> Keys:
    """Beginning somewhere inside their data, as slices of Arrow arrays do."""
    offsets = slack + np.concatenate(([0], np.cumsum([len(text) for text in texts]))).astype(np.int32)
    return Keys(offsets.astype(np.int32), np.frombuffer(b"?" * slack + b"".join(texts), np.uint8))


def texts_of(keys: Keys) -> list[bytes]:
    return [keys.data[start:stop].tobytes() for start, stop in pairwise(keys.offsets.tolist())]


def common_prefix(left: bytes, right: bytes) -> bytes:
    differ = (place for place, (a, b) in enumerate(zip(left, right, strict=False)) if a != b)
    return left[: next(differ, min(len(left), len(right)))]


def run_of(texts: list[bytes]) -> Run:
    (run,) = twin.front_code(keys_of(texts), np.arange(len(texts)), np.array([0, len(texts)]))
    return run


def splitmix(word: int) -> int:
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ word >> 27) * 0x94D049BB133111EB % 2**64
    return word ^ word >> 31


def placement(key: bytes) -> int:
    golden = 0x9E3779B97F4A7C15
    value = splitmix((len(key) + golden) % 2**64)
    for place in range(0, len(key), 8):
        value = splitmix((value * golden) % 2**64 ^ int.from_bytes(key[place : place + 8], "little"))
    return splitmix(value ^ value >> 32)


@given(KEYS, st.integers(0, 3))
@example(LONG, 1)
def test_placement_hash_is_the_written_one(texts: list[bytes], slack: int) -> None:
    assert twin.hash_keys(keys_of(texts, slack)).tolist() == [placement(text) for text in texts]


def test_placement_hash_is_fixed_for_ever() -> None:
    # Blocks on the wire are placed by it: a change here is a change of the protocol.
    hashes = twin.hash_keys(keys_of([b"", b"a", b"/index.html", b"\0" * 8]))
    assert [f"{value:016x}" for value in hashes.tolist()] == FIXED


FIXED = ["ddd15591c59a642a", "a3cfefaee66c4e7c", "6826abe6b4592a52", "6110774641ca9af6"]


@given(KEYS, st.integers(0, 3))
def test_table_numbers_keys_by_first_appearance(texts: list[bytes], slack: int) -> None:
    table = twin.table(7)
    half = len(texts) // 2
    ids = [*table.upsert(keys_of(texts[:half], slack)), *table.upsert(keys_of(texts[half:], slack))]
    first = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    assert ids == [first[text] for text in texts]
    assert texts_of(table.keys()) == list(first)
    assert (table.rows, table.key_bytes) == (len(first), sum(map(len, first)))
    assert table.nbytes > table.key_bytes
    table.clear()
    assert (table.rows, table.key_bytes, texts_of(table.keys())) == (0, 0, [])
    assert table.upsert(keys_of(texts[:1])).tolist() == [0][: len(texts)]


def test_table_takes_all_of_a_batch_or_nothing() -> None:
    table = twin.table(0)
    table.upsert(keys_of([b"here"]))
    with pytest.raises(ValueError, match="65536 bytes"):
        table.upsert(keys_of([b"new", b"x" * (KEY_BYTES_MAX + 1), b"here"]))
    assert texts_of(table.keys()) == [b"here"]


@given(DISTINCT, st.integers(0, 16), st.integers(0, 3))
@example(LONG, 3, 1)
@settings(deadline=None)  # 65,536 parts take a while to look through
def test_order_is_by_placement_then_bytes(texts: list[bytes], bits: int, slack: int) -> None:
    def part(text: bytes) -> int:
        return placement(text) >> (64 - bits) if bits else 0

    table = twin.table(0)
    table.upsert(keys_of(texts))
    for order, cuts in (twin.sort_keys(keys_of(texts, slack), bits), table.order(bits)):
        assert [texts[place] for place in order] == sorted(texts, key=lambda text: (part(text), text))
        assert len(cuts) == 2**bits + 1
        for number, (start, stop) in enumerate(pairwise(cuts.tolist())):
            assert all(part(texts[place]) == number for place in order[start:stop])


@given(DISTINCT, st.integers(0, 4), st.integers(0, 3))
@example(LONG, 1, 1)
def test_runs_share_exactly_what_they_can(texts: list[bytes], bits: int, slack: int) -> None:
    keys = keys_of(texts, slack)
    order, cuts = twin.sort_keys(keys, bits)
    runs = twin.front_code(keys, order, cuts)
    for run, (start, stop) in zip(runs, pairwise(cuts.tolist()), strict=True):
        wanted = [texts[place] for place in order[start:stop]]
        assert run.rows == len(wanted)
        assert run.key_bytes == sum(map(len, wanted))
        shared = [len(common_prefix(*pair)) for pair in pairwise([b"", *wanted])]
        rests = [text[common:] for text, common in zip(wanted, shared, strict=True)]
        lengths = [*shared, *map(len, rests)]
        assert run.wide == (max(lengths, default=0) > 255)
        coded = np.array(lengths, "<u2" if run.wide else "u1").tobytes() + b"".join(rests)
        assert run.data.tobytes() == coded
        assert texts_of(twin.decode_run(run)) == wanted
        checked = twin.check_run(run.rows, run.wide, run.data, run.key_bytes)
        assert (checked.key_bytes, checked.rows) == (run.key_bytes, run.rows)


@given(st.lists(DISTINCT.map(sorted), min_size=1, max_size=6))
@example([sorted(LONG), [b"x" * 255]])
@example([[b"a"], []])
def test_merge_is_the_sorted_union(sources: list[list[bytes]]) -> None:
    merged, maps = twin.merge_runs([run_of(texts) for texts in sources])
    union = sorted({text for texts in sources for text in texts})
    assert texts_of(twin.decode_run(merged)) == union
    assert merged.data.tobytes() == run_of(union).data.tobytes()
    for texts, places in zip(sources, maps, strict=True):
        assert [union[place] for place in places] == texts


@given(DISTINCT.map(sorted), st.integers(0, 60), st.integers(0, 4))
def test_partition_follows_the_bits_of_the_hash(texts: list[bytes], skip: int, bits: int) -> None:
    runs, rows = twin.partition_run(run_of(texts), skip, bits)
    parts = [texts_of(twin.decode_run(run)) for run in runs]
    assert len(parts) == 2**bits
    for number, part in enumerate(parts):
        assert part == [
            text for text in texts if placement(text) << skip >> (64 - bits) & (2**bits - 1) == number
        ]
    assert [texts[row] for row in rows] == [text for part in parts for text in part]


def brute_check(rows: int, wide: bool, data: bytes) -> list[bytes] | None:
    """The keys of a run, if it is one: by the definition, one key at a time."""
    width = 2 if wide else 1
    if len(data) < 2 * rows * width:
        return None
    lengths = np.frombuffer(data[: 2 * rows * width], "<u2" if wide else "u1").tolist()
    keys: list[bytes] = []
    at = 2 * rows * width
    for shared, rest in zip(lengths[:rows], lengths[rows:], strict=True):
        before = keys[-1] if keys else b""
        if shared > len(before) or at + rest > len(data):
            return None
        key = before[:shared] + data[at : at + rest]
        if (keys and key <= before) or len(key) > KEY_BYTES_MAX:
            return None
        if len(common_prefix(before, key)) != shared:
            return None
        keys.append(key)
        at += rest
    return keys if at == len(data) else None


@given(
    st.integers(0, 4),
    st.booleans(),
    st.lists(st.sampled_from([0, 0, 1, 1, 2, 3, 255]), max_size=24).map(bytes),
)
@example(1, False, bytes([0, 0]))
@example(2, False, bytes([0, 0, 0, 0]))
@example(2, False, bytes([0, 1, 1, 1, 5, 5]))
@example(2, False, bytes([0, 0, 1, 1, 5, 5]))
@example(2, False, bytes([0, 0, 1, 1, 5, 4]))
def test_check_accepts_runs_and_nothing_else(rows: int, wide: bool, data: bytes) -> None:
    wanted = brute_check(rows, wide, data)
    try:
        run = twin.check_run(rows, wide, np.frombuffer(data, np.uint8), 10_000)
    except ValueError:
        assert wanted is None
    else:
        assert texts_of(twin.decode_run(run)) == wanted


@given(DISTINCT.map(sorted).filter(bool), st.data())
def test_check_sees_a_changed_byte_or_reads_other_keys(texts: list[bytes], data: st.DataObject) -> None:
    run = run_of(texts)
    raw = bytearray(run.data.tobytes())
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    wanted = brute_check(run.rows, run.wide, bytes(raw))
    try:
        checked = twin.check_run(run.rows, run.wide, np.frombuffer(bytes(raw), np.uint8), 1 << 20)
    except ValueError:
        assert wanted is None
    else:
        assert texts_of(twin.decode_run(checked)) == wanted != texts


def test_check_refuses_what_unfolds_beyond_the_limit() -> None:
    run = run_of([b"x" * 60_000, b"x" * 60_001])
    assert len(run.data) < 60_010
    twin.check_run(run.rows, run.wide, run.data, 120_001)
    with pytest.raises(ValueError, match="over the limit"):
        twin.check_run(run.rows, run.wide, run.data, 120_000)
    with pytest.raises(ValueError, match="too short"):
        twin.check_run(1 << 40, False, run.data, 1 << 60)
    lengths = np.array([0, 60_000, 60_000, 60_000], "<u2").view(np.uint8)
    text = np.frombuffer(b"a" * 60_000 + b"b" * 60_000, np.uint8)
    with pytest.raises(ValueError, match="longer"):
        twin.check_run(2, True, np.concatenate((lengths, text)), 1 << 30)


# -- typed columns -------------------------------------------------------------------------------------------

VALUES = {
    0: st.none(),
    1: st.integers(0, 1),
    4: st.integers(-(2**31), 2**31 - 1),
    8: st.integers(-(2**63), 2**63 - 1),
    16: st.integers(-(2**127), 2**127 - 1),
    -1: st.binary(max_size=6) | ALIKE,
}
SHAPE = st.lists(
    st.tuples(st.sampled_from(sorted(VALUES)), st.booleans()).map(lambda s: (s[0], s[1] or s[0] == 0)),
    max_size=4,
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[tuple[int, bool]], list[tuple[Any, ...]]]:
    shape = draw(SHAPE)
    cells = [VALUES[width] | st.none() if nullable else VALUES[width] for width, nullable in shape]
    return shape, draw(st.lists(st.tuples(*cells), max_size=12))


def column_of(width: int, nullable: bool, values: list[Any]) -> KeyColumn:
    valid = np.array([value is not None for value in values], np.bool_)
    mask = None if valid.all() else valid
    if width == 0:
        return KeyColumn(0, True, None, None, mask)
    if width == -1:
        return KeyColumn(-1, nullable, None, keys_of([value or b"" for value in values], 2), mask)
    numbers = [value or 0 for value in values]
    if width == 16:
        words = np.frombuffer(b"".join(n.to_bytes(16, "little", signed=True) for n in numbers), np.int64)
        return KeyColumn(16, nullable, words.reshape(-1, 2), None, mask)
    types = {1: np.uint8, 4: np.int32, 8: np.int64}
    return KeyColumn(width, nullable, np.array(numbers, types[width]), None, mask)


def encoded(shape: list[tuple[int, bool]], row: tuple[Any, ...]) -> bytes:
    out = b""
    for place, ((width, nullable), value) in enumerate(zip(shape, row, strict=True)):
        if nullable:
            out += b"\0" if value is None else b"\1"
        if value is None:
            continue
        if width == -1:
            last = place == len(shape) - 1
            out += value if last else value.replace(b"\0", b"\0\xff") + b"\0\0"
        elif width == 1:
            out += bytes([value])
        else:
            out += (value + (1 << 8 * width - 1)).to_bytes(width, "big")
    return out


def values_of(column: KeyColumn, rows: int) -> list[Any]:
    if column.width == 0:
        values: list[Any] = [None] * rows
    elif column.width == -1:
        assert column.strings is not None
        values = list(texts_of(column.strings))
    else:
        assert column.values is not None
        values = [
            int.from_bytes(value.tobytes(), "little", signed=column.width > 1) for value in column.values
        ]
    valid = [True] * rows if column.valid is None else column.valid.tolist()
    return [value if there else None for value, there in zip(values, valid, strict=True)]


@given(tables())
def test_key_bytes_are_as_written_and_come_back(
    table: tuple[list[tuple[int, bool]], list[tuple[Any, ...]]],
) -> None:
    shape, rows = table
    columns = [column_of(*shape[i], [row[i] for row in rows]) for i in range(len(shape))]
    keys = twin.encode_keys(columns, len(rows))
    assert texts_of(keys) == [encoded(shape, row) for row in rows]
    back = twin.decode_keys(keys, shape)
    assert [(column.width, column.nullable) for column in back] == shape
    decoded = [values_of(column, len(rows)) for column in back]
    assert [tuple(column[i] for column in decoded) for i in range(len(rows))] == rows


@given(SHAPE, st.lists(st.binary(max_size=10) | ALIKE, max_size=4))
def test_other_bytes_are_refused_or_are_the_encoding_of_what_they_decode_to(
    shape: list[tuple[int, bool]], texts: list[bytes]
) -> None:
    try:
        back = twin.decode_keys(keys_of(texts, 1), shape)
    except ValueError:
        return
    decoded = [values_of(column, len(texts)) for column in back]
    bools = [place for place, (width, _) in enumerate(shape) if width == 1]
    rows = [tuple(column[i] for column in decoded) for i in range(len(texts))]
    assert all(row[place] in (None, *range(256)) for row in rows for place in bools)
    assert [encoded(shape, row) for row in rows] == texts


def test_every_key_that_is_too_long_is_named() -> None:
    strings = keys_of([b"ok", b"x" * (KEY_BYTES_MAX - 8), b"x" * (KEY_BYTES_MAX - 7), b"\0" * 40_000])
    numbers = KeyColumn(8, False, np.arange(4))
    with pytest.raises(KeyOverflow) as first:
        twin.encode_keys([numbers, KeyColumn(-1, False, None, strings)], 4)
    assert first.value.rows.tolist() == [2]
    with pytest.raises(KeyOverflow) as second:
        twin.encode_keys([KeyColumn(-1, False, None, strings), numbers], 4)
    assert second.value.rows.tolist() == [1, 2, 3]


# -- scatters ------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-(2**40), 2**40)), max_size=30))
def test_scatters_equal_a_loop(rows: list[tuple[int, int]]) -> None:
    ids = np.array([group for group, _ in rows], np.int64)
    values = np.array([value for _, value in rows], np.int64)
    of = [[value for group, value in rows if group == wanted] for wanted in range(5)]
    counts, sums, least, greatest = (np.full(5, 3, np.int64) for _ in range(4))
    twin.count(ids, counts)
    twin.add(ids, values, sums)
    twin.least(ids, values, least)
    twin.greatest(ids, values, greatest)
    assert counts.tolist() == [3 + len(group) for group in of]
    assert sums.tolist() == [3 + sum(group) for group in of]
    assert least.tolist() == [min(3, *group, 3) for group in of]
    assert greatest.tolist() == [max(3, *group, 3) for group in of]


FLOATS = (
    st.floats(allow_nan=False, allow_infinity=False) | st.floats(-100, 100) | st.sampled_from([0.0, -0.0])
)


@given(st.lists(st.tuples(st.integers(0, 3), FLOATS), max_size=20))
def test_floats_are_added_exactly(rows: list[tuple[int, float]]) -> None:
    ids = np.array([group for group, _ in rows], np.int64)
    values = np.array([value for _, value in rows], np.float64)
    sums = np.zeros((4, 1 + 68), np.int64)
    assert twin.add_floats(ids, values, sums, LIMB_MIN) == len(rows)
    columns = {LIMB_MIN + place: sums[:, 1 + place] for place in range(68)}
    for wanted in range(4):
        assert sums[wanted, 0] == sum(1 for group, _ in rows if group == wanted)
        assert exact(columns, wanted) == sum((Fraction(v) for g, v in rows if g == wanted), Fraction(0))


def test_floats_stop_at_the_first_that_needs_another_limb() -> None:
    sums = np.zeros((1, 1 + 2), np.int64)
    values = np.array([1.0, 0.5, 2.0**31, 2.0**32, 1.0])
    assert twin.add_floats(np.zeros(5, np.int64), values, sums, -1) == 3
    assert sums.tolist() == [[3, 2**31, 1 + 2**31]]
    assert twin.add_floats(np.zeros(1, np.int64), np.array([2.0**-40]), sums, -1) == 0
    assert twin.add_floats(np.zeros(1, np.int64), np.array([0.0]), sums, -1) == 1
    assert sums.tolist() == [[4, 2**31, 1 + 2**31]]
