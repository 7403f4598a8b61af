"""Frames between a program and its agent: each side reads only what the other may say."""

from __future__ import annotations

import msgspec
import pytest

from elfmesh.control.protocol.program_frames import (
    MESSAGE_BYTES_MAX,
    NOWHERE,
    Answer,
    Deliver,
    FromAgent,
    FromProgram,
    Handled,
    Join,
    Reached,
    Replaced,
    ResultPosition,
    Role,
    Say,
    encode,
    from_agent,
    from_program,
    read_place,
)
from elfmesh.errors import ProtocolError

PROCESS = b"p" * 20
OF_PROGRAMS: list[FromProgram] = [
    Say(1, "route", "shop/top", b"x"),
    Join("shop"),
    Handled(PROCESS, 3, error="failed"),
    Reached(ResultPosition(1, 2, "text")),
]
OF_AGENTS: list[FromAgent] = [
    Role(True, 3, "web1"),
    Deliver(PROCESS, 1, "multicast", "web2", b"x", term=4),
    Answer(1, "silent"),
    Replaced(),
]


@pytest.mark.parametrize("frame", OF_PROGRAMS)
def test_a_frame_of_a_program_is_read_by_its_agent_alone(frame: FromProgram) -> None:
    assert from_program(encode(frame)) == frame
    with pytest.raises(ProtocolError, match="malformed frame"):
        from_agent(encode(frame))


@pytest.mark.parametrize("frame", OF_AGENTS)
def test_a_frame_of_an_agent_is_read_by_its_program_alone(frame: FromAgent) -> None:
    assert from_agent(encode(frame)) == frame
    with pytest.raises(ProtocolError, match="malformed frame"):
        from_program(encode(frame))


@pytest.mark.parametrize(
    "frame",
    [
        Say(1, "route", "shop/top", bytes(MESSAGE_BYTES_MAX + 1)),
        Say(1, "route", "x" * 257, b""),
        Say(-1, "route", "shop/top", b""),
        Say(1, "send_to", "shop", b"", timeout_s=0),
        Say(1, "send_to", "shop", b"", timeout_s=3601),
        Say(1, "shout", "shop", b""),  # type: ignore[arg-type]  # no verb
        Handled(b"short", 3),
        Reached(ResultPosition(-1)),
    ],
)
def test_what_is_beyond_the_limits_is_malformed(frame: FromProgram) -> None:
    with pytest.raises(ProtocolError, match="malformed frame"):
        from_program(encode(frame))


@pytest.mark.parametrize("data", [b"", b"\xc1", msgspec.msgpack.encode({"type": "join"})])
def test_bytes_that_are_no_frame_are_malformed(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="malformed frame"):
        from_program(data)


def test_a_place_is_read_as_it_was_kept_and_later_places_are_greater() -> None:
    places = [NOWHERE, ResultPosition(0, 9, "z"), ResultPosition(1, 0, "a"), ResultPosition(1, 1, "")]
    assert [read_place(encode(place)) for place in places] == places == sorted(places)
    assert read_place(b"\xc1") is None
    assert read_place(encode(places[1])[:-1]) is None
