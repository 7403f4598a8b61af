"""Pages of records on the wire."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.control.jobs.pages import decode_page, encode_page
from elfmesh.errors import ProtocolError
from tests.storage.results.records import record


def test_a_page_with_any_byte_changed_is_refused() -> None:
    page = encode_page([(record(1), b"rows"), (record(2), b"")])
    assert [each.index for each, _ in decode_page(page)] == [1, 2]
    for place in range(len(page)):
        broken = page[:place] + bytes([page[place] ^ 0xFF]) + page[place + 1 :]
        with pytest.raises(ProtocolError):
            decode_page(broken)


@given(st.binary(min_size=1, max_size=200))
def test_arbitrary_bytes_are_no_page(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_page(data)
