from __future__ import annotations

import struct
import zlib
from collections import Counter
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elfmesh.cbt import (
    CompressedBufferTree,
    NotInvertible,
    PartialTooLarge,
    TypeConflict,
    decode_partial,
    encode_partial,
    finish,
    merge_partials,
    merge_tables,
    partial,
    split_partial,
    subtract,
)
from elfmesh.errors import ProtocolError

PLAN = {"n": ("count", None), "s": ("sum", "v"), "lo": ("min", "v"), "hi": ("max", "t")}


def table(rows: list[tuple[Any, Any, Any]], plan: Any = None, v: Any = None) -> pa.Table:
    tree = CompressedBufferTree(["k"], PLAN if plan is None else plan)
    columns = [
        pa.array([row[i] for row in rows], t)
        for i, t in enumerate((pa.string(), v or pa.float64(), pa.string()))
    ]
    tree.insert(pa.record_batch(dict(zip("kvt", columns, strict=True))))
    return tree.partial()


def rows_of(tables: dict[str, pa.Table], name: str = "main") -> list[tuple[Any, ...]]:
    columns = [column.to_pylist() for column in finish(tables)[name].columns]
    # NaN, which infinities of both signs sum to, must compare equal here.
    rows = [tuple("nan" if value != value else value for value in row) for row in zip(*columns, strict=True)]
    return sorted(rows, key=repr)


ROWS = st.lists(
    st.tuples(
        st.none() | st.text(max_size=6),
        st.none() | st.floats(allow_nan=False, width=32),
        st.none() | st.sampled_from(["x", "y\0", ""]),
    ),
    max_size=30,
)
SAMPLE = encode_partial({"main": table([("a", 1.5, "x"), (None, None, None), ("ü\0", -2.0, "y")] * 3)})


@given(ROWS)
def test_encode_and_decode_round_trip(rows: list[tuple[Any, Any, Any]]) -> None:
    tables = {"main": table(rows), "d0": table(rows, {})}
    back = decode_partial(encode_partial(tables))
    assert list(back) == ["main", "d0"]
    assert all(back[name].equals(tables[name], check_metadata=True) for name in tables)


def test_metadata_marks_every_column() -> None:
    marks = msgspec.json.decode(table([("a", 1.0, "x")]).schema.metadata[b"elfmesh.pao"])
    assert marks[0] == ["k"]
    assert [(name, kind) for name, kind, *_ in marks[1]] == [(name, kind) for name, (kind, _) in PLAN.items()]
    assert table([("a", 1.0, "x")]).column_names[:3] == ["k", "n:rows", "s:values"]


@given(st.lists(ROWS, min_size=1, max_size=4))
@settings(deadline=None)
def test_merging_needs_no_plan_and_equals_the_whole(parts: list[list[tuple[Any, Any, Any]]]) -> None:
    encoded = [encode_partial({"main": table(rows)}) for rows in parts]
    whole = rows_of({"main": table([row for rows in parts for row in rows])})
    assert rows_of(decode_partial(merge_partials(encoded))) == whole
    assert rows_of(decode_partial(merge_partials([merge_partials(encoded[1:]), encoded[0]]))) == whole
    assert rows_of(merge_tables([decode_partial(part) for part in encoded])) == whole


@given(ROWS, st.integers(1, 5))
@settings(deadline=None)
def test_split_parts_are_disjoint_complete_and_follow_the_key_alone(
    rows: list[tuple[Any, Any, Any]], parts: int
) -> None:
    data = encode_partial({"main": table(rows)})
    cut = split_partial(data, parts)
    assert len(cut) == parts
    decoded = [decode_partial(part) for part in cut]
    pieces = [rows_of(part) if part else [] for part in decoded]
    assert sorted((row for piece in pieces for row in piece), key=repr) == rows_of({"main": table(rows)})
    # Another agent with one of the keys in another batch, type and order sends it to the same part.
    for row in rows[:5]:
        alone = split_partial(encode_partial({"main": table([row])}), parts)
        (place,) = [i for i, part in enumerate(alone) if part]
        assert row[0] in [other[0] for other in pieces[place]]


def test_split_keeps_integer_and_float_keys_together() -> None:
    def split(keys: pa.Array) -> dict[float, int]:
        tree = CompressedBufferTree(["k"], {"n": ("count", None)})
        tree.insert(pa.record_batch({"k": keys}))
        parts = split_partial(encode_partial({"main": tree.partial()}), 7)
        return {
            float(key): place
            for place, part in enumerate(parts)
            if part
            for key in decode_partial(part)["main"]["k"].to_pylist()
        }

    keys = [*range(-50, 50), 2**53, 2**53 + 1, 10**18 + 1]
    assert split(pa.array(keys)) == split(pa.array([float(key) for key in keys]))


@pytest.mark.parametrize("order", [("main", "d0"), ("d0", "main")])
def test_a_distinct_table_follows_its_group(order: tuple[str, str]) -> None:
    main, d0 = CompressedBufferTree(["k0"], {"n": ("count", None)}), CompressedBufferTree(["k0", "x"], {})
    batch = pa.record_batch({"k0": [i % 20 for i in range(400)], "x": [str(i) for i in range(400)]})
    main.insert(batch)
    d0.insert(batch)
    whole = {"main": main.partial(), "d0": d0.partial()}
    parts = split_partial(encode_partial({name: whole[name] for name in order}), 4)
    seen = 0
    for part in parts:
        tables = decode_partial(part)
        assert set(tables["d0"]["k0"].to_pylist()) == set(tables["main"]["k0"].to_pylist())
        seen += tables["d0"].num_rows
    assert seen == 400
    assert sum(bool(part) for part in parts) > 1


def test_a_global_group_goes_to_one_part_whole() -> None:
    tree = CompressedBufferTree([], {"n": ("count", None)})
    tree.insert(pa.record_batch({"x": [1, 2]}))
    parts = split_partial(encode_partial({"main": tree.partial()}), 3)
    assert sorted(map(bool, parts)) == [False, False, True]
    assert rows_of(decode_partial(merge_partials(parts))) == [(2,)]


def test_the_empty_partial_is_no_bytes() -> None:
    assert decode_partial(b"") == {}
    assert merge_partials([]) == merge_partials([b"", b""]) == b""
    assert merge_partials([b"", SAMPLE]) == SAMPLE
    assert split_partial(b"", 2) == [b"", b""]
    with pytest.raises(ValueError, match="at least one"):
        split_partial(SAMPLE, 0)


def test_types_promote_between_agents_and_conflicts_are_named() -> None:
    ints = encode_partial({"main": table([("a", 2**53 + 1, None)], v=pa.int64())})
    nulls = encode_partial({"main": table([("a", None, None)], v=pa.null())})
    floats = encode_partial({"main": table([("a", 0.5, None)])})
    for order in ([ints, nulls, floats], [floats, ints, nulls]):
        assert rows_of(decode_partial(merge_partials(order))) == [("a", 3, 2.0**53 + 2, 0.5, None)]
    words = encode_partial({"main": table([("a", 1.0, "x")], {**PLAN, "lo": ("min", "t")})})
    with pytest.raises(TypeConflict, match="'lo' is float64 in one place and string in another"):
        merge_partials([floats, words])
    exact = encode_partial({"main": table([("a", Decimal(1), None)], v=pa.decimal128(9, 2))})
    with pytest.raises(TypeConflict, match=r"decimal\(38,2\)"):
        merge_partials([ints, exact])


def test_partials_of_different_plans_do_not_merge() -> None:
    other = encode_partial({"main": table([("a", 1.0, "x")], {"n": ("count", None)})})
    with pytest.raises(ProtocolError, match="different plans"):
        merge_partials([SAMPLE, other])
    values = encode_partial({"main": table([("a", 1.0, "x")], {"n": ("count", "v")})})
    with pytest.raises(ProtocolError, match="different plans"):
        merge_partials([other, values])


def test_subtract_is_the_inverse_and_drops_groups_without_records() -> None:
    plan = {"n": ("count", None), "s": ("sum", "v")}
    early = [("a", 0.1, None), ("b", None, None)]
    late = [("a", 0.2, None), ("c", 1e300, None), ("c", float("inf"), None)]
    whole = {"main": table(early + late, plan)}
    assert rows_of(subtract(whole, {"main": table(late, plan)})) == rows_of({"main": table(early, plan)})
    assert rows_of(subtract(whole, {"main": table(early, plan)})) == rows_of({"main": table(late, plan)})
    assert rows_of(subtract(whole, {})) == rows_of(whole)


def test_subtracting_what_cannot_be_subtracted_is_refused() -> None:
    with pytest.raises(NotInvertible, match=r"lo \(min\)"):
        subtract(decode_partial(SAMPLE), decode_partial(SAMPLE))
    only_sum = {"main": table([("a", 1.0, None)], {"s": ("sum", "v")})}
    with pytest.raises(NotInvertible, match=r"count\(\*\)"):
        subtract(only_sum, only_sum)
    plan = {"n": ("count", None)}
    with pytest.raises(ValueError, match="not part of the whole"):
        subtract({"main": table([("a", 1.0, None)], plan)}, {"main": table([("b", 1.0, None)], plan)})


def reseal(raw: bytes, **options: Any) -> bytes:
    """What a hostile peer does: any content, with a right checksum."""
    return seal(zstandard.ZstdCompressor(**options).compress(raw))


def seal(body: bytes) -> bytes:
    return struct.pack(">4sBI", b"EPAO", 1, zlib.crc32(body)) + body


RAW = zstandard.ZstdDecompressor().decompress(SAMPLE[9:])


@given(st.integers(0, len(SAMPLE) - 1), st.integers(1, 255))
def test_any_flipped_byte_is_noticed(place: int, flip: int) -> None:
    damaged = bytearray(SAMPLE)
    damaged[place] ^= flip
    with pytest.raises(ProtocolError):
        decode_partial(bytes(damaged))


@given(st.integers(1, len(SAMPLE) - 1))
def test_any_truncation_is_noticed(size: int) -> None:
    with pytest.raises(ProtocolError):
        decode_partial(SAMPLE[:size])


@given(st.binary(min_size=1, max_size=200))
@example(b"EPAO")
@example(struct.pack(">4sBI", b"EPAO", 1, 0))
def test_noise_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_partial(data)
    with pytest.raises(ProtocolError):
        decode_partial(reseal(data))


@given(st.lists(st.tuples(st.integers(0, len(RAW) - 1), st.integers(0, 255)), min_size=1, max_size=4))
@settings(max_examples=500, deadline=None)
def test_hostile_content_with_a_right_checksum_never_crashes(changes: list[tuple[int, int]]) -> None:
    raw = bytearray(RAW)
    for place, value in changes:
        raw[place] = value
    data = reseal(bytes(raw))
    try:
        tables = decode_partial(data)
    except ProtocolError:
        return
    # What passes must be usable to the end: merged, split, finished, read.
    finished = finish(tables)
    for finished_table in finished.values():
        finished_table.validate(full=True)
        finished_table.to_pylist()
    decode_partial(merge_partials([data, data]))
    split_partial(data, 3)


def bomb(rows: int, columns: int = 1) -> bytes:
    """Constant columns: no bytes on the wire, eight per row in memory."""
    parts = [["rows", "int64", False, 0, 1, 0]]
    states = [[f"n{i}", "count", "int64", parts] for i in range(columns)]
    header = msgspec.msgpack.encode([["main", [rows, [], states]]])
    return reseal(struct.pack(">I", len(header)) + header)


def test_lengths_of_strings_must_add_up() -> None:
    def keys(lengths: bytes, text: bytes) -> bytes:
        column = ["k", "string", False, 1, 0, len(text)]
        header = msgspec.msgpack.encode([["main", [len(lengths), [column], []]]])
        return reseal(struct.pack(">I", len(header)) + header + lengths + text)

    assert decode_partial(keys(b"\1\2", b"abc"))["main"]["k"].to_pylist() == ["a", "bc"]
    for lengths in (b"\1\1", b"\3\3", b"\377\1"):
        with pytest.raises(ProtocolError, match=r"add up|longer than all"):
            decode_partial(keys(lengths, b"abc"))


def test_a_block_that_unfolds_from_nothing_is_bounded() -> None:
    assert decode_partial(bomb(10))["main"].num_rows == 10
    for data in (bomb(1 << 40), bomb(1 << 24, columns=8), bomb(-1)):
        with pytest.raises(ProtocolError, match="damaged block"):
            decode_partial(data)


def test_a_decompression_bomb_is_refused_by_what_it_states_and_by_what_it_gives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partial, "DECOMPRESSED_BYTES_MAX", 4 << 20)
    zeros = bytes(16 << 20)
    with pytest.raises(ProtocolError, match="states a size over the limit"):
        decode_partial(reseal(zeros))
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    with pytest.raises(ProtocolError, match="unfolds to more than the limit"):
        decode_partial(seal(stream.compress(zeros) + stream.flush()))
    wide_window = zstandard.ZstdCompressionParameters.from_level(1, window_log=24)
    stream = zstandard.ZstdCompressor(compression_params=wide_window).compressobj()
    with pytest.raises(ProtocolError, match="states a size over the limit"):
        decode_partial(seal(stream.compress(b"x") + stream.flush()))


def test_large_partials_stream_through_the_bounded_decompressor() -> None:
    keys = np.random.default_rng(1).integers(0, 2**62, 200_000)
    tree = CompressedBufferTree(["k"], {"n": ("count", None)})
    tree.insert(pa.record_batch({"k": keys}))
    data = encode_partial({"main": tree.partial()})
    assert Counter(decode_partial(data)["main"]["k"].to_pylist()) == Counter(set(keys.tolist()))
    with pytest.raises(ProtocolError, match="cut off"):
        decode_partial(seal(data[9:-100]))


@pytest.mark.parametrize("count", [0, 65])
def test_the_number_of_tables_is_bounded(count: int) -> None:
    with pytest.raises(ProtocolError, match="tables"):
        encode_partial({f"t{i}": table([("a", 1.0, "x")]) for i in range(count)})


def test_what_receivers_would_refuse_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {"main": table([(f"key{i}", 1.0, "x") for i in range(1_000)])}
    data = encode_partial(tables)
    monkeypatch.setattr(partial, "DECOMPRESSED_BYTES_MAX", 1 << 16)
    with pytest.raises(PartialTooLarge, match="over the limit of 65536"):
        encode_partial(tables)
    with pytest.raises(ProtocolError, match="unfolds to more"):
        decode_partial(data)
