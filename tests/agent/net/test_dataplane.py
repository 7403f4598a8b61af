from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.agent.net.dataplane import CHUNK, GOODBYE, LAST, Demultiplexer, Multiplexer
from elfmesh.errors import ProtocolError
from elfmesh.limits import CHUNK_BYTES_MAX


def drain(mux: Multiplexer, budget: int = CHUNK_BYTES_MAX) -> bytes:
    return b"".join(iter(lambda: mux.take(budget), b""))


def lanes_of(stream: bytes) -> list[tuple[int, int]]:
    """(lane, data bytes) of each chunk in order."""
    out, at = [], 0
    while at < len(stream):
        length, _, lane = CHUNK.unpack_from(stream, at)
        out.append((lane, length))
        at += CHUNK.size + length
    return out


frames_on_lanes = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 200_000), st.integers(0, 255)), min_size=1, max_size=8
)


@settings(deadline=None, max_examples=60)
@given(frames_on_lanes, st.integers(100, 100_000), st.integers(1, 150_000))
def test_every_frame_arrives_whole_and_in_order_of_its_lane(
    frames: list[tuple[int, int, int]], cut: int, budget: int
) -> None:
    mux, demux = Multiplexer(), Demultiplexer()
    sent: dict[int, list[bytes]] = {}
    for lane, size, fill in frames:
        frame = bytes([lane, fill]) + bytes([fill]) * size
        assert mux.offer(lane, frame)
        sent.setdefault(lane, []).append(frame)
    stream = drain(mux, budget)
    received: dict[int, list[bytes]] = {}
    for at in range(0, len(stream), cut):
        for frame in demux.feed(memoryview(stream)[at : at + cut]):
            received.setdefault(frame[0], []).append(frame)
    assert received == sent
    assert demux.held == 0
    assert mux.queued == 0


def test_chunks_may_be_cut_anywhere_between_two_reads() -> None:
    mux, demux = Multiplexer(), Demultiplexer()
    frames = [bytes([n]) * (n + 1) for n in range(5)]
    for frame in frames:
        mux.offer(frame[0], frame)
    stream = drain(mux)
    found = [frame for at in range(len(stream)) for frame in demux.feed(memoryview(stream)[at : at + 1])]
    assert found == frames


def test_bulk_lanes_share_by_weight_and_not_by_backlog() -> None:
    mux = Multiplexer({1: 1, 2: 2, 3: 4})
    for lane in (1, 2, 3):
        mux.offer(lane, bytes(12 << 20))
    share = dict.fromkeys((1, 2, 3), 0)
    for lane, size in lanes_of(b"".join(mux.take() for _ in range(140))):
        share[lane] += size
    total = sum(share.values())
    assert [round(share[lane] / total, 1) for lane in (1, 2, 3)] == [0.1, 0.3, 0.6]


def test_a_control_frame_goes_before_bulk_that_was_queued_earlier() -> None:
    mux = Multiplexer()
    mux.offer(7, bytes(1 << 20))
    mux.take()
    mux.offer(0, b"control")
    assert lanes_of(mux.take(1)) == [(0, 7)]


def test_a_full_lane_refuses_and_counts_but_others_still_go() -> None:
    mux = Multiplexer(lane_bytes_max=1000, bytes_max=2000)
    assert mux.offer(1, bytes(5000)), "an empty lane takes one frame of any size"
    assert not mux.offer(1, bytes(10))
    assert mux.offer(2, bytes(10))
    assert mux.offer(0, bytes(10))
    assert mux.refused == 1


def test_an_idle_lane_saves_up_no_credit() -> None:
    mux = Multiplexer()
    mux.offer(1, bytes(10))
    mux.offer(2, bytes(10))
    drain(mux)
    for lane in (1, 2):
        mux.offer(lane, bytes(1 << 20))
    assert {lane for lane, _ in lanes_of(mux.take() + mux.take() + mux.take())} == {1, 2}


@pytest.mark.parametrize(
    "chunk",
    [
        CHUNK.pack(0, LAST, 1),
        CHUNK.pack(CHUNK_BYTES_MAX + 1, 0, 1),
        CHUNK.pack(0xFFFFFFFF, 0, 1),
        CHUNK.pack(10, 2, 1),
        CHUNK.pack(10, 4, 1),
        GOODBYE + CHUNK.pack(1, LAST, 1),
    ],
)
def test_a_chunk_outside_the_format_is_refused_before_its_data(chunk: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(Demultiplexer().feed(memoryview(chunk)))


def test_an_endless_frame_is_refused_at_the_limit() -> None:
    demux = Demultiplexer(frame_bytes_max=100_000)
    chunk = CHUNK.pack(60_000, 0, 1) + bytes(60_000)
    list(demux.feed(memoryview(chunk)))
    with pytest.raises(ProtocolError, match="lane 1"):
        list(demux.feed(memoryview(chunk)))


def test_unfinished_frames_on_many_lanes_are_bounded() -> None:
    chunks = b"".join(CHUNK.pack(100, 0, lane) + bytes(100) for lane in range(30))
    with pytest.raises(ProtocolError, match="unfinished"):
        list(Demultiplexer(bytes_max=1_000).feed(memoryview(chunks)))
    chunks = b"".join(CHUNK.pack(1, 0, lane) + b"x" for lane in range(1000))
    with pytest.raises(ProtocolError, match="unfinished"):
        list(Demultiplexer().feed(memoryview(chunks)))


@given(st.binary(max_size=4000))
def test_noise_never_raises_anything_but_a_protocol_error(noise: bytes) -> None:
    demux = Demultiplexer()
    try:
        list(demux.feed(memoryview(noise)))
    except ProtocolError:
        return
    assert demux.held <= len(noise)
