from __future__ import annotations

import contextlib

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.errors import ProtocolError
from elfmesh.limits import CONTROL_FRAME_BYTES_MAX, DATA_FRAME_BYTES_MAX
from elfmesh.machine import Contact, Message
from elfmesh.wire import Codec


class Ping(Message, frozen=True, tag="test.ping"):
    sender: Contact
    nonce: int


class Chunk(Message, frozen=True, tag="test.chunk"):
    digest: bytes
    counts: tuple[int, ...] = ()


CODEC = Codec([Ping, Chunk])
CONTACT = Contact(id=b"\x01" * 20, host="127.0.0.1", port=7400)
messages = st.one_of(
    st.builds(Ping, sender=st.just(CONTACT), nonce=st.integers(0, 2**63 - 1)),
    st.builds(
        Chunk, digest=st.binary(max_size=64), counts=st.lists(st.integers(0, 2**40), max_size=5).map(tuple)
    ),
)


@given(messages, st.binary(max_size=300))
def test_a_frame_gives_back_its_message_and_payload(message: Message, payload: bytes) -> None:
    assert CODEC.decode(CODEC.encode(message, payload)) == (message, payload)


@given(messages, st.binary(max_size=50), st.data())
def test_a_frame_that_is_cut_short_or_too_long_is_refused(
    message: Message, payload: bytes, data: st.DataObject
) -> None:
    frame = CODEC.encode(message, payload)
    for wrong in (frame[: data.draw(st.integers(0, len(frame) - 1))], frame + b"x"):
        with pytest.raises(ProtocolError):
            CODEC.decode(wrong)


@given(messages, st.binary(max_size=50), st.data())
def test_a_damaged_frame_is_a_protocol_error_or_another_valid_message(
    message: Message, payload: bytes, data: st.DataObject
) -> None:
    frame = bytearray(CODEC.encode(message, payload))
    frame[data.draw(st.integers(0, len(frame) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(ProtocolError):
        decoded, _ = CODEC.decode(bytes(frame))
        assert isinstance(decoded, Ping | Chunk)


@pytest.mark.parametrize(
    ("total", "header"),
    [(2**32 - 1, 10), (CONTROL_FRAME_BYTES_MAX + DATA_FRAME_BYTES_MAX, 10), (8, 9), (3, 0), (100, 2**32 - 1)],
)
def test_lengths_that_do_not_fit_are_refused_before_anything_is_decoded(total: int, header: int) -> None:
    with pytest.raises(ProtocolError, match=r"states|shorter"):
        CODEC.decode(total.to_bytes(4) + header.to_bytes(4))


@pytest.mark.parametrize(
    "header",
    [
        {"t": "test.unknown"},
        {"t": "test.ping", "sender": [b"x", "h", 1], "nonce": "no"},
        {"t": "test.ping"},
        {"t": ["test.ping"]},
        {"nonce": 1},
        [1, 2],
        7,
    ],
)
def test_an_unknown_tag_or_a_wrong_field_reaches_no_handler(header: object) -> None:
    packed = msgpack.packb(header)
    with pytest.raises(ProtocolError):
        CODEC.decode_header(packed)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(ProtocolError):
        CODEC.decode_header(b"\x91" * 100_000 + b"\x01")


def test_our_own_oversized_message_is_a_bug_of_ours() -> None:
    with pytest.raises(ValueError, match="over the limit"):
        CODEC.encode(Chunk(digest=b"x"), b"x" * (DATA_FRAME_BYTES_MAX + 1))
    with pytest.raises(ValueError, match="over the limit"):
        CODEC.encode(Chunk(digest=b"x" * (CONTROL_FRAME_BYTES_MAX + 1)))


def test_two_kinds_with_one_tag_are_refused() -> None:
    class Other(Message, frozen=True, tag="test.ping"):
        pass

    with pytest.raises(ValueError, match="same tag"):
        Codec([Ping, Other])
