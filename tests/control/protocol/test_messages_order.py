"""Posts on the wire."""

from __future__ import annotations

import msgspec
import pytest

from elfmesh.control.protocol.messages_order import PAYLOAD_BYTES_MAX, Post, decode_posts, encode_posts
from elfmesh.errors import ProtocolError
from elfmesh.limits import POST_BYTES_MAX

POSTS = [Post("p", 1, 5, '"x"'), Post("q", 0, 6, "{}")]


def test_posts_return_as_they_were_sent() -> None:
    assert list(decode_posts(encode_posts(POSTS))) == POSTS


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        encode_posts(POSTS)[:-1],
        msgspec.msgpack.encode([["p", -1, 0, "x"]]),
        msgspec.msgpack.encode([["p", 1, 1 << 60, "x"]]),
        msgspec.msgpack.encode([["p", 1, 0, "x" * (POST_BYTES_MAX + 1)]]),
        msgspec.msgpack.encode([["p" * 300, 1, 0, "x"]]),
        b"\x90" * (PAYLOAD_BYTES_MAX + 1),
    ],
)
def test_what_is_no_list_of_posts_is_refused(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_posts(payload)
