from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.cbt import (
    CompressedBufferTree,
    NotInvertible,
    TypeConflict,
    decode_partial,
    encode_partial,
    encode_parts,
    finish,
    finish_parts,
    merge_partials,
    split_partial,
    subtract,
)
from elfmesh.cbt.partial import partial
from elfmesh.cbt.partial.contents import FinishedBlocks
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
    return readable(finish(tables)[name])


def whole_table(finished: FinishedBlocks) -> pa.Table:
    tables = list(finished.blocks())
    assert sum(table.num_rows for table in tables) <= finished.rows_max
    return pa.concat_tables(tables, promote_options="permissive")


def readable(finished: pa.Table) -> list[tuple[Any, ...]]:
    columns = [column.to_pylist() for column in finished.columns]
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
    if not rows:
        assert back == {}
        return
    assert list(back) == ["main", "d0"]
    for name in tables:
        assert rows_of(back, name) == rows_of(tables, name)
        assert back[name].schema.metadata == tables[name].schema.metadata
        assert back[name].schema.types == tables[name].schema.types


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
    if not whole:
        assert merge_partials(encoded) == b""
        assert finish_parts(encoded) == {}
        return
    assert rows_of(decode_partial(merge_partials(encoded))) == whole
    assert rows_of(decode_partial(merge_partials([merge_partials(encoded[1:]), encoded[0]]))) == whole
    assert readable(whole_table(finish_parts(encoded)["main"])) == whole


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
    with pytest.raises(TypeConflict, match=r"int64 in one place and decimal\(9,2\)"):
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


@pytest.mark.parametrize("count", [0, 65])
def test_the_number_of_tables_is_bounded(count: int) -> None:
    with pytest.raises(ProtocolError, match="tables"):
        encode_partial({f"t{i}": table([("a", 1.0, "x")]) for i in range(count)})


@given(ROWS, ROWS, st.integers(1, 5))
@settings(deadline=None)
def test_splitting_while_encoding_equals_splitting_after(
    main: list[tuple[Any, Any, Any]], more: list[tuple[Any, Any, Any]], parts: int
) -> None:
    tables = {"main": table(main), "d0": table(more, {})}
    assert encode_parts(tables, parts) == split_partial(encode_partial(tables), parts)


def contents(data: bytes) -> dict[str, list[tuple[Any, ...]]]:
    return {name: rows_of({name: part}, name) for name, part in decode_partial(data).items()}


def large(seed: int, rows: int, keys: int, key_type: pa.DataType, nulls: bool) -> dict[str, Any]:
    """A table of many keys: as text, or as numbers of one type or another, with or without null."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, keys, rows)
    column = pa.array([f"/page/{n}" for n in numbers]) if key_type == pa.string() else pa.array(numbers)
    column = column.cast(key_type)
    if nulls:
        column = pa.concat_arrays([column[1:], pa.nulls(1, key_type)])
    return {"k": column, "v": rng.integers(0, 50, rows) / 4, "t": pa.array(["x", "y"]).take(numbers % 2)}


@given(
    st.lists(
        st.tuples(
            st.integers(0, 9),
            st.sampled_from([1, 20, 50, 400, 3_000, 40_000]),
            st.booleans(),
            st.booleans(),
        ),
        min_size=1,
        max_size=5,
    ),
    st.permutations(range(5)),
)
@settings(deadline=None, max_examples=15)
def test_merging_is_associative_and_commutative_over_depths_and_forms(
    parts: list[tuple[int, int, bool, bool]], order: list[int]
) -> None:
    """Blocks are cut at different depths, keys are text or (whole part of them) null, ints or floats."""
    for family in ((pa.string(), pa.string()), (pa.int64(), pa.float64())):
        trees = CompressedBufferTree(["k"], PLAN)
        encoded = []
        for seed, rows, first, nulls in parts:
            columns = large(seed, rows, 4 * rows, family[first], nulls)
            tree = CompressedBufferTree(["k"], PLAN)
            for into in (tree, trees):
                into.insert(pa.record_batch(columns))
            encoded.append(encode_partial({"main": tree.partial()}))
        want = contents(encode_partial({"main": trees.partial()}))
        shuffled = [encoded[place] for place in order if place < len(encoded)]
        assert contents(merge_partials(shuffled)) == want
        halves = [
            merge_partials(shuffled[: len(shuffled) // 2]),
            merge_partials(shuffled[len(shuffled) // 2 :]),
        ]
        assert contents(merge_partials(halves)) == want
        assert readable(whole_table(finish_parts(encoded)["main"])) == want["main"]
        if len(encoded) > 1:
            assert contents(merge_partials(split_partial(merge_partials(halves), 3))) == want


def test_a_single_partial_is_handed_on_and_an_empty_table_takes_part() -> None:
    one = encode_partial({"main": table([("a", 1.0, "x")]), "d0": table([], {})})
    assert contents(one)["d0"] == []
    two = encode_partial({"main": table([("b", 1.0, "x")]), "d0": table([("z", None, None)], {})})
    assert contents(merge_partials([one, two]))["d0"] == [("z",)]
    assert merge_partials([one]) is one


def test_threads_that_encode_at_once_do_not_take_the_same_squeezer(monkeypatch: pytest.MonkeyPatch) -> None:
    class TakenMeanwhile(list[Any]):
        def pop(self, *_: Any) -> Any:
            raise IndexError("another thread was faster")

    monkeypatch.setattr(partial, "_IDLE", TakenMeanwhile([None]))
    assert encode_partial({"main": table([("a", 1.5, "x")])})


@pytest.mark.parametrize("names", [("k", "v"), ("v",)])
def test_a_null_at_one_agent_makes_no_other_encode_its_keys_again(
    names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = []
    for value in (1.0, None):
        tree = CompressedBufferTree(names, {"n": ("count", None)})
        columns = {"k": pa.array(["a", "b"]), "v": pa.array([2.0, value])}
        tree.insert(pa.record_batch({name: columns[name] for name in names}))
        parts.append(encode_partial({"main": tree.snapshot()}))
    monkeypatch.setattr("elfmesh.cbt.partial.contents._regrouped", None)
    merged = finish(decode_partial(merge_partials(parts)))["main"]
    assert sorted(merged["n"].to_pylist()) == [1, 1, 2]
