"""Lists and structs as keys of partial aggregates: merged over agents whose logs gave them other types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from elfmesh.cbt import Panes, TypeConflict, decode_partial, encode_parts, finish, merge_partials
from elfmesh.cbt.codec.codec import pack, unpack
from elfmesh.cbt.columns import nested_type, type_from_name, type_name, unify
from elfmesh.cbt.keys import KeyForm
from elfmesh.cbt.nested import DEPTH_MAX, NAME_CHARS_MAX, nested_keys, nested_name, nested_values
from elfmesh.cbt.rows import Layout, Rows
from elfmesh.cbt.sort_bytes import read_sorted, reader, sort_bytes
from elfmesh.cbt.sorted_rows import sort_rows
from elfmesh.errors import ProtocolError
from elfmesh.python_values import from_python
from elfmesh.ql.plan.statement import TableSpec

LISTS = pa.list_(pa.int64())
DOUBLES = pa.list_(pa.float64())
TABLE = TableSpec("main", ("k", "j"), {"n": ("count", None)})


def keys(values: list[Any], kind: pa.DataType) -> pa.Array:
    return nested_keys(pa.array(values, kind), nested_type(kind))


def partial(values: list[Any], kind: pa.DataType, parts: int = 1) -> list[bytes]:
    """What an agent sends for records with these lists; all have the second key "a"."""
    panes = Panes([TABLE], None)
    batch = pa.record_batch({"k": keys(values, kind), "j": pa.array(["a"] * len(values))})
    panes.insert("main", np.zeros(len(values), np.int64), batch)
    window = panes.window(0)
    assert window is not None
    return encode_parts(window, parts)


def rows_of(data: bytes) -> dict[str, int]:
    if not data:
        return {}
    table = finish(decode_partial(data))["main"]
    found = nested_values(table.column("k").combine_chunks()).to_pylist()
    counts = table.column("n").to_pylist()
    rows = {str(key): count for key, count in zip(found, counts, strict=True)}
    assert len(rows) == table.num_rows
    return rows


def test_agents_with_other_types_have_one_group() -> None:
    """JSON logs have no schema: [1, 2] is a list of integers at one agent, of doubles at another."""
    sent = [
        *partial([[1, 2], [1, 2], None, []], LISTS),
        *partial([[1.0, 2.0], [2.5], [None]], DOUBLES),
        *partial([[None], [], None], pa.list_(pa.null())),
    ]
    wanted = {"None": 2, "[]": 2, "[None]": 2, "[1.0, 2.0]": 3, "[2.5]": 1}
    assert rows_of(merge_partials(sent)) == wanted
    assert rows_of(merge_partials([merge_partials(sent[1:]), sent[0]])) == wanted


def test_a_group_is_in_one_part_whatever_its_types_are() -> None:
    """With PARTITIONS, each tree has the whole of its groups."""
    lists = [[number, None] for number in range(50)]
    one, other = partial(lists, LISTS, 4), partial(lists, DOUBLES, 4)
    found = [rows_of(merge_partials(list(pair))) for pair in zip(one, other, strict=True)]
    assert {key: count for part in found for key, count in part.items()} == {
        str([float(number), None]): 2 for number in range(50)
    }
    assert sum(map(len, found)) == 50


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (LISTS, pa.list_(pa.string())),
        (LISTS, pa.list_(LISTS)),
        (LISTS, pa.int64()),
        (pa.struct([("a", pa.int64())]), pa.struct([("b", pa.int64())])),
        (pa.struct([("a", pa.int64())]), LISTS),
    ],
)
def test_types_without_a_common_one_are_refused(left: pa.DataType, right: pa.DataType) -> None:
    kinds = [nested_type(kind) if pa.types.is_nested(kind) else kind for kind in (left, right)]
    with pytest.raises(TypeConflict):
        unify("k", *kinds)


def test_structs_have_the_types_of_their_fields_in_common() -> None:
    left = pa.struct([("a", pa.int64()), ("b", pa.null())])
    right = pa.struct([("a", pa.float64()), ("b", pa.list_(pa.string()))])
    assert unify("k", nested_type(left), nested_type(right)) == nested_type(right)
    assert unify("k", nested_type(right), nested_type(left)) == nested_type(right)


def test_a_type_is_read_from_its_name() -> None:
    kind = nested_type(pa.list_(pa.struct([('x"y', pa.decimal128(9, 2)), ("", pa.list_(pa.bool_()))])))
    assert type_from_name(type_name(kind)) == kind
    assert type_name(kind) == 'nested ["list",["struct",["x\\"y","decimal(9,2)"],["",["list","bool"]]]]'


@pytest.mark.parametrize(
    "name",
    [
        "nested ",
        'nested "int64"',
        'nested ["list"]',
        'nested ["list", "int64"]',
        'nested ["list","int65"]',
        'nested ["map","string"]',
        'nested ["struct",["a"]]',
        'nested ["struct",["a","int64"],["a","int64"]]',
        "nested " + "[" * 2000,
        "nested " + '["list",' * (DEPTH_MAX + 2) + '"int64"' + "]" * (DEPTH_MAX + 2),
        'nested ["struct",["' + "a" * NAME_CHARS_MAX + '","int64"]]',
    ],
    ids=lambda name: name[:40],
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - what the codec takes as damage
        type_from_name(name)


def test_a_map_is_read_with_its_entries_in_their_order() -> None:
    kind = pa.map_(pa.string(), pa.list_(pa.date32()))
    maps = [[("b", [1]), ("a", None)], [], None, [("", [3_000_000, None])]]
    column = from_python(maps, kind)
    assert nested_values(nested_keys(column, nested_type(kind))) == column
    narrow = pa.map_(pa.string(), pa.null())
    assert unify("k", nested_type(narrow), nested_type(kind)) == nested_type(kind)
    for damaged in (
        b"\x01\x01\x00\x00",
        b"\x01\x01\x01\x01\x00\x00",
        sort_bytes([("a",)]),
        sort_bytes([("a", [1], 2)]),
    ):
        with pytest.raises(ValueError, match="an entry without"):
            read_sorted(damaged, reader(kind))


def test_a_type_that_is_too_large_is_refused() -> None:
    deep = LISTS
    for _ in range(DEPTH_MAX):
        deep = pa.list_(deep)
    wide = pa.struct([(f"field {number}", pa.int64()) for number in range(300)])
    for kind, why in ((deep, "deep"), (wide, "characters")):
        with pytest.raises(ValueError, match=why):
            nested_name(kind, type_name)


def test_a_key_from_outside_that_is_no_value_is_refused() -> None:
    """A peer must not be able to fail the interval of a job with the bytes of a key."""
    kind = nested_type(LISTS)
    bad = pa.ExtensionArray.from_storage(kind, pa.array([b"no list"]))
    rows = Rows(Layout(("k",), ()), 1, (bad,), ())
    (piece,) = sort_rows(rows, 0, KeyForm((kind,), (True,)))
    packed = pack(piece)
    unpack(packed.header, packed.chunks, trusted=True)
    with pytest.raises(ProtocolError, match="neither a value nor null"):
        unpack(packed.header, packed.chunks, trusted=False)
