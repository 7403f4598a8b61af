"""Key bytes: equal exactly where SQL's grouping says so, and nothing is lost on the way back."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from elfmesh.cbt import kernel
from elfmesh.cbt.columns import promote
from elfmesh.cbt.errors import TypeConflict
from elfmesh.cbt.kernel.protocol import KEY_BYTES_MAX, Keys
from elfmesh.cbt.keys import KeyForm, KeyTooLong, decode, encode, form_of, unify_forms
from elfmesh.errors import DataError
from tests.cbt.tables import VALUES, column, columns, identities, key_columns


def texts_of(keys: Keys) -> list[bytes]:
    return [keys.data[keys.offsets[i] : keys.offsets[i + 1]].tobytes() for i in range(len(keys))]


@given(key_columns())
def test_bytes_are_equal_where_rows_are(table: tuple[list[pa.Array], int]) -> None:
    arrays, rows = table
    texts = texts_of(encode(arrays, form_of(arrays), rows))
    wanted = identities(arrays, rows)
    for left in range(rows):
        for right in range(rows):
            assert (texts[left] == texts[right]) == (wanted[left] == wanted[right])


@given(key_columns())
def test_columns_come_back(table: tuple[list[pa.Array], int]) -> None:
    arrays, rows = table
    form = form_of(arrays)
    back = decode(encode(arrays, form, rows), form, trusted=False)
    assert [array.type for array in back] == [array.type for array in arrays]
    assert identities(back, rows) == identities(arrays, rows)


@given(key_columns(), st.data())
def test_a_wider_form_keeps_what_is_equal(table: tuple[list[pa.Array], int], data: st.DataObject) -> None:
    arrays, rows = table
    nullable = data.draw(st.tuples(*[st.booleans()] * len(arrays)))
    form = unify_forms(
        form_of(arrays),
        KeyForm(tuple(a.type for a in arrays), nullable),
        [f"k{i}" for i in range(len(arrays))],
    )
    assert identities(decode(encode(arrays, form, rows), form), rows) == identities(arrays, rows)


@pytest.mark.parametrize("data_type", [pa.string(), pa.binary()])
def test_a_single_column_of_strings_is_not_copied(data_type: pa.DataType) -> None:
    array = pa.array([b"ab", b"", b"c", b"ab\0"], pa.binary()).cast(data_type)[1:]
    form = form_of([array])
    assert form.plain
    keys = encode([array], form, 3)
    assert texts_of(keys) == [b"", b"c", b"ab\0"]
    assert keys.data.ctypes.data == array.buffers()[2].address
    assert not KeyForm((data_type,), (True,)).plain
    assert not KeyForm((data_type, data_type), (False, False)).plain


def test_without_key_columns_there_is_one_empty_key() -> None:
    form = form_of([])
    keys = encode([], form, 3)
    assert texts_of(keys) == [b"", b"", b""]
    assert decode(keys, form, trusted=False) == ()
    with pytest.raises(ValueError, match="without a key column"):
        decode(encode([pa.array(["x"])], form_of([pa.array(["x"])]), 1), form)


def test_the_format_is_as_written() -> None:
    arrays = [
        pa.array(["a\0b", None]),
        pa.array([1, -1]),
        pa.array([True, False]),
        pa.nulls(2),
        pa.array([0, None], pa.date32()),
        pa.array(["end", "\0"]),
    ]
    form = KeyForm(tuple(array.type for array in arrays), (True, False, False, True, True, False))
    texts = texts_of(encode(arrays, form, 2))
    assert texts[0] == b"\1a\0\xffb\0\0" + b"\x80\0\0\0\0\0\0\1" + b"\1" + b"\0" + b"\1\x80\0\0\0" + b"end"
    assert texts[1] == b"\0" + b"\x7f" + b"\xff" * 7 + b"\0" + b"\0" + b"\0" + b"\0"


@given(columns(8, [pa.int64(), pa.date32(), pa.duration("us"), pa.decimal128(38, 0)]))
def test_bytes_of_numbers_order_as_the_numbers(array: pa.Array) -> None:
    array = array.drop_null()
    texts = texts_of(encode([array], form_of([array]), len(array)))
    numbers = [value for (value,) in identities([array], len(array))]
    assert sorted(texts) == [text for _, text in sorted(zip(numbers, texts, strict=True))]


def test_a_form_is_ready_for_nulls_unless_it_is_plain() -> None:
    texts, numbers = pa.array(["a"]), pa.array([1])
    assert form_of([texts]).nullable == (False,)
    assert form_of([pa.array(["a", None])]).nullable == (True,)
    assert form_of([numbers]).nullable == (True,)
    assert form_of([texts, numbers]).nullable == (True, True)
    assert form_of([]) == KeyForm((), ())


@given(key_columns())
def test_a_form_without_markers_holds_what_is_not_null(table: tuple[list[pa.Array], int]) -> None:
    arrays, rows = table
    arrays = [array for array in arrays if not array.null_count]
    form = KeyForm(tuple(array.type for array in arrays), (False,) * len(arrays))
    assume(not any(pa.types.is_null(array.type) for array in arrays))
    back = decode(encode(arrays, form, rows), form, trusted=False)
    assert identities(back, rows) == identities(arrays, rows)


def test_forms_unify_by_type_and_nulls() -> None:
    some, none, with_null = form_of([pa.array([1])]), form_of([pa.nulls(1)]), form_of([pa.array([1.5, None])])
    assert unify_forms(some, some, ["k"]) is some
    bare = KeyForm((pa.int64(),), (False,))
    assert unify_forms(bare, bare, ["k"]) is bare
    assert unify_forms(bare, none, ["k"]) == KeyForm((pa.int64(),), (True,))
    assert unify_forms(some, with_null, ["k"]) == KeyForm((pa.float64(),), (True,))
    with pytest.raises(TypeConflict, match="'k'"):
        unify_forms(some, form_of([pa.array(["x"])]), ["k"])


@given(st.data())
def test_unifying_does_not_depend_on_the_order(data: st.DataObject) -> None:
    numbers = [pa.null(), pa.int64(), pa.float64()]
    forms = [form_of([data.draw(columns(3, numbers))]) for _ in range(3)]
    left = unify_forms(unify_forms(forms[0], forms[1], ["k"]), forms[2], ["k"])
    assert left == unify_forms(forms[2], unify_forms(forms[1], forms[0], ["k"]), ["k"])


@given(columns(6), st.booleans())
def test_keys_keep_their_bytes_where_a_form_declares_that_it_has_those_of_the_old_one(
    array: pa.Array, null: bool
) -> None:
    old = form_of([array])
    for data_type in VALUES:
        try:
            new = unify_forms(old, KeyForm((data_type,), (null or pa.types.is_null(data_type),)), ["k"])
        except TypeConflict:
            continue
        wide = promote(array, new.types[0])
        same = texts_of(encode([array], old, 6)) == texts_of(encode([wide], new, 6))
        assert same or not new.has_bytes_of(old)


def test_an_integer_key_equals_the_float_it_is_promoted_to() -> None:
    ints, floats = pa.array([1, 2**53 + 1]), column([1.0, float(2**53)], pa.float64())
    form = unify_forms(form_of([ints]), form_of([floats]), ["k"])
    assert texts_of(encode([ints], form, 2)) == texts_of(encode([floats], form, 2))


@pytest.mark.parametrize("other", [None, 7])
def test_keys_too_long_are_named_and_the_others_are_not(other: int | None) -> None:
    texts = ["x" * KEY_BYTES_MAX, "y" * (KEY_BYTES_MAX + 1), "ok", "z" * (KEY_BYTES_MAX - 10)]
    arrays = [pa.array(texts)] if other is None else [pa.array([other] * 4), pa.array(texts)]
    wanted = [1] if other is None else [0, 1]
    with pytest.raises(KeyTooLong, match="65535 bytes") as caught:
        encode(arrays, form_of(arrays), 4)
    assert caught.value.rows.tolist() == wanted
    assert isinstance(caught.value, DataError)
    kept = np.setdiff1d(np.arange(4), caught.value.rows)
    shorter = [array.take(pa.array(kept)) for array in arrays]
    assert len(encode(shorter, form_of(shorter), len(kept))) == len(kept)


def test_nulls_in_a_form_without_are_our_own_mistake() -> None:
    with pytest.raises(ValueError, match="nulls in a key column"):
        encode([pa.array([1, None])], KeyForm((pa.int64(),), (False,)), 2)


def keys_of(*texts: bytes) -> Keys:
    lengths = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    return Keys(lengths, np.frombuffer(b"".join(texts), np.uint8))


def test_keys_from_outside_must_be_canonical() -> None:
    flipped = np.array([math.nan, -0.0, -math.nan]).view(np.uint64) ^ np.uint64(1 << 63)
    for bits in (flipped[0] + np.uint64(1), flipped[1], flipped[2]):
        with pytest.raises(ValueError, match="float key"):
            decode(keys_of(int(bits).to_bytes(8, "big")), KeyForm((pa.float64(),), (False,)), trusted=False)
    with pytest.raises(ValueError, match="boolean key"):
        decode(keys_of(b"\2"), KeyForm((pa.bool_(),), (False,)), trusted=False)
    with pytest.raises(ValueError, match="UTF8"):
        decode(keys_of(b"\xff"), KeyForm((pa.string(),), (False,)), trusted=False)
    with pytest.raises(ValueError, match="UTF8"):
        decode(keys_of(b"\1\xff"), KeyForm((pa.string(),), (True,)), trusted=False)
    with pytest.raises(ValueError, match=r"[Dd]ecimal"):
        decode(keys_of(b"\xff" * 16), KeyForm((pa.decimal128(3, 0),), (False,)), trusted=False)


@given(
    st.lists(st.binary(max_size=12), max_size=4),
    st.lists(st.sampled_from(list(VALUES)), max_size=3),
    st.data(),
)
def test_any_bytes_decode_to_valid_columns_or_not_at_all(
    texts: list[bytes], types: list[pa.DataType], data: st.DataObject
) -> None:
    nullable = tuple(pa.types.is_null(t) or data.draw(st.booleans()) for t in types)
    form = KeyForm(tuple(types), nullable)
    try:
        arrays = decode(keys_of(*texts), form, trusted=False)
    except ValueError:
        return
    assert texts_of(encode(arrays, form, len(texts))) == texts


def test_both_kernels_write_the_same_bytes() -> None:
    kernels = {kernel.active, kernel.choose("numpy")[0]}
    arrays = [pa.array(["a", None, "b\0"]), pa.array([1, 2, None]), pa.array([1.5, 2.5, -0.5])]
    columns_of = [form_of(arrays[:width]) for width in range(4)]
    written = set()
    original = kernel.active
    try:
        for one in kernels:
            kernel.active = one
            written.add(tuple(tuple(texts_of(encode(arrays[: len(f.types)], f, 3))) for f in columns_of))
    finally:
        kernel.active = original
    assert len(written) == 1
