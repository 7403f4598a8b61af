from __future__ import annotations

import pytest

from elfmesh.errors import ProtocolError
from elfmesh.srt.digest import CHILD, PARENT, UNKNOWN, Row, pack, split, unpack


def test_rows_come_back() -> None:
    rows = [
        Row(b"abcdefgh", CHILD, 3, 2, 40, 1 << 62, 7, 5, UNKNOWN),
        Row(b"12345678", PARENT, 0, 32, 1000, 0, 0, 0, 17),
    ]
    packed = split(b"".join(map(pack, rows)))
    assert {prefix: unpack(row) for prefix, row in packed.items()} == {row.prefix: row for row in rows}
    assert [len(row) for row in packed.values()] == [44, 44]


def test_values_too_large_for_a_row_are_capped() -> None:
    row = unpack(pack(Row(b"abcdefgh", CHILD, 999, 10**6, 10**12, 1, 10**12, 1, 1)))
    assert (row.depth, row.load, row.size, row.seq) == (255, 65535, 2**32 - 1, 2**32 - 1)


@pytest.mark.parametrize("digest", [b"x", bytes(43)])
def test_a_digest_that_is_cut_off_is_refused(digest: bytes) -> None:
    with pytest.raises(ProtocolError):
        split(digest)


def test_a_row_with_an_unknown_relation_is_refused() -> None:
    with pytest.raises(ProtocolError):
        unpack(bytes(44))
