"""Messages of the overlay on the wire."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.machine import Message
from elfmesh.overlay import (
    MESSAGES,
)
from elfmesh.wire import Codec
from tests.overlay.arbitrary import messages


@settings(max_examples=60, deadline=None)
@given(messages(st.integers(0, 2**63)))
def test_every_message_survives_the_wire(message: Message) -> None:
    codec = Codec(MESSAGES)
    frame = codec.encode(message)
    assert codec.decode_header(frame[8:]) == message
