"""The placement hash of the native kernel against that of its twin."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.kernel import numpy_twin as twin
from tests.cbt.kernel.cases import any_keys, keys_of

native = pytest.importorskip("elfmesh.cbt.kernel.native", exc_type=ImportError)


@given(any_keys, st.binary(max_size=9), st.binary(max_size=9))
def test_placement_hash_is_that_of_the_twin(texts: list[bytes], before: bytes, after: bytes) -> None:
    keys = keys_of(texts, before, after)
    assert native.hash_keys(keys).tolist() == twin.hash_keys(keys).tolist()


def test_placement_hash_is_fixed_for_ever() -> None:
    hashes = native.hash_keys(keys_of([b"", b"a", b"12345678", b"123456789"]))
    assert hashes.tolist() == twin.hash_keys(keys_of([b"", b"a", b"12345678", b"123456789"])).tolist()
    assert f"{int(hashes[0]):016x} {int(hashes[3]):016x}" == "ddd15591c59a642a d8b78e20b30fdfbe"
