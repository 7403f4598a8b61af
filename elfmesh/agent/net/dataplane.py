"""Multiplexes many streams on one connection: splits frames into chunks and shares bandwidth fairly.

  chunk = u32 length of the data | u8 flags (1: last chunk of its frame) | u16 lane | data

The module owns the byte format between two peers and the order of sending. It knows no sockets, tasks or
clocks. Lane 0 carries control messages and has priority. All other lanes share the remaining bandwidth by
deficit round robin, in proportion to their weights and not to the lengths of their queues. Frames of one lane
stay in order; frames of different lanes may overtake each other.

Invariants: a queue never exceeds its limit; a frame that does not fit is refused and counted, and the cores
retransmit what matters. The receiver never buffers more than one permitted frame per lane, nor more than
`REASSEMBLY_BYTES_MAX` in total. Every length is checked before a byte is stored.

Paper: Aurora*/Medusa 4.3 (a single connection between two nodes, streams multiplexed on it by weight).
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Mapping

from elfmesh.errors import ProtocolError
from elfmesh.limits import CHUNK_BYTES_MAX, CONTROL_FRAME_BYTES_MAX, DATA_FRAME_BYTES_MAX

CHUNK = struct.Struct(">IBH")
LAST = 1
"""Flag: this chunk is the last of its frame."""
END = 2
"""Flag, alone and without data: the sender sends nothing more on this connection."""
CONTROL_LANE = 0
LANE_MAX = 0xFFFF
GOODBYE = CHUNK.pack(0, END, CONTROL_LANE)
FRAME_BYTES_MAX = 8 + CONTROL_FRAME_BYTES_MAX + DATA_FRAME_BYTES_MAX
"""Maximum size of a frame of `elfmesh.wire`: two lengths, header, payload."""
LANE_QUEUE_BYTES_MAX = 2 * FRAME_BYTES_MAX
"""Maximum bytes that a lane queues for a slow peer: the frame being sent and the next one."""
QUEUE_BYTES_MAX = 4 * FRAME_BYTES_MAX
"""Maximum bytes that all lanes of a connection queue together."""
REASSEMBLY_BYTES_MAX = 4 * FRAME_BYTES_MAX
"""Maximum bytes of unfinished frames of a peer."""
LANES_MAX = 256
"""Maximum number of lanes with an unfinished frame: one per tree that two agents share, with room to spare.
"""
QUANTUM_BYTES = CHUNK_BYTES_MAX // 4
"""Credit of a lane with weight 1 per round; smaller than a chunk, so that weights take effect within a few
chunks."""


class _Lane:
    __slots__ = ("cut", "deficit", "frames", "queued", "weight")

    def __init__(self, weight: int) -> None:
        self.frames: deque[bytes] = deque()
        self.cut = 0  # bytes of frames[0] already sent
        self.queued = 0
        self.weight = weight
        self.deficit = 0  # invariant: 0 while the lane is empty, so that idle lanes accumulate no credit


class Multiplexer:
    """Queues frames per lane, and returns bytes to write in a fair order.

    Args:
        weights: share of the bandwidth of bulk lanes; default 1.
        lane_bytes_max: queue limit of one lane. An empty lane accepts one frame of any size.
        bytes_max: queue limit of all lanes together, without the control lane.
    """

    def __init__(
        self,
        weights: Mapping[int, int] | None = None,
        *,
        lane_bytes_max: int = LANE_QUEUE_BYTES_MAX,
        bytes_max: int = QUEUE_BYTES_MAX,
    ) -> None:
        self._weights = dict(weights or {})
        self._lane_bytes_max, self._bytes_max = lane_bytes_max, bytes_max
        self._control = _Lane(1)
        self._lanes: dict[int, _Lane] = {}
        self._ring: deque[int] = deque()  # exactly the bulk lanes with queued frames
        self.queued = 0
        self.refused = 0

    def offer(self, lane: int, frame: bytes) -> bool:
        """Queue a frame. Returns False if the queue of the lane or of the connection is full."""
        if not 0 <= lane <= LANE_MAX:
            raise ValueError(f"lane {lane} does not fit in 16 bits")
        if not 0 < len(frame) <= FRAME_BYTES_MAX:
            raise ValueError(f"a frame of {len(frame)} bytes is over the limit")
        state = self._control if lane == CONTROL_LANE else self._lanes.get(lane)
        if state is None:
            state = self._lanes[lane] = _Lane(max(1, self._weights.get(lane, 1)))
        full = state.queued + len(frame) > self._lane_bytes_max
        if lane != CONTROL_LANE:
            full = full or self.queued - self._control.queued + len(frame) > self._bytes_max
        if state.frames and full:
            self.refused += 1
            return False
        if not state.frames and lane != CONTROL_LANE:
            self._ring.append(lane)
        state.frames.append(frame)
        state.queued += len(frame)
        self.queued += len(frame)
        return True

    def take(self, budget: int = CHUNK_BYTES_MAX) -> bytes:
        """Return the next bytes to write: whole chunks, at least one if anything is queued, otherwise b"".

        Cost: one copy of the returned bytes; at most `budget` bytes plus one chunk.
        """
        parts: list[bytes] = []
        size = 0
        while size < budget and self.queued:
            if self._control.frames:
                size += self._cut(CONTROL_LANE, self._control, parts)
            else:
                lane, state = self._next_bulk()
                size += self._cut(lane, state, parts)
                if not state.frames:
                    self._ring.popleft()
                    del self._lanes[lane]
                elif state.deficit <= 0:
                    self._ring.rotate(-1)
        return b"".join(parts)

    def _next_bulk(self) -> tuple[int, _Lane]:
        while True:
            state = self._lanes[self._ring[0]]
            if state.deficit <= 0:
                state.deficit += state.weight * QUANTUM_BYTES
            if state.deficit > 0:
                return self._ring[0], state
            self._ring.rotate(-1)

    def _cut(self, lane: int, state: _Lane, parts: list[bytes]) -> int:
        frame = state.frames[0]
        data = frame[state.cut : state.cut + CHUNK_BYTES_MAX]
        state.cut += len(data)
        last = state.cut == len(frame)
        parts.append(CHUNK.pack(len(data), LAST if last else 0, lane))
        parts.append(data)
        if last:
            state.frames.popleft()
            state.cut = 0
        state.queued -= len(data)
        self.queued -= len(data)
        state.deficit -= len(data)
        return CHUNK.size + len(data)


class Demultiplexer:
    """Reassembles frames within memory limits, whatever the peer sends.

    Args:
        frame_bytes_max: maximum size of a frame.
        bytes_max: maximum bytes of all unfinished frames together.
    """

    def __init__(
        self, *, frame_bytes_max: int = FRAME_BYTES_MAX, bytes_max: int = REASSEMBLY_BYTES_MAX
    ) -> None:
        self.frame_bytes_max, self._bytes_max = frame_bytes_max, bytes_max
        self._header = bytearray()
        self._remaining = 0  # bytes of the current chunk that have not arrived yet
        self._last = False
        self._lane = 0
        self._unfinished: dict[int, bytearray] = {}
        self.held = 0
        self.ended = False

    def feed(self, data: memoryview) -> Iterator[bytes]:
        """Yield the frames that `data` completes, in the order of their last chunks.

        The generator is lazy, so that the consumer of a frame can change `frame_bytes_max` before the next
        chunk is parsed. It must be exhausted before the next call. Cost: one copy of the data.

        Raises:
            ProtocolError: a chunk violates the format or the limits; the connection is then unusable.
        """
        at, end = 0, len(data)
        while at < end:
            if self._remaining == 0:
                take = min(CHUNK.size - len(self._header), end - at)
                self._header += data[at : at + take]
                at += take
                if len(self._header) < CHUNK.size:
                    break
                self._begin_chunk()
                continue
            take = min(self._remaining, end - at)
            self._remaining -= take
            done = self._last and self._remaining == 0
            if done and self._lane not in self._unfinished:
                yield bytes(data[at : at + take])
            else:
                part = self._unfinished.setdefault(self._lane, bytearray())
                part += data[at : at + take]
                self.held += take
                if done:
                    del self._unfinished[self._lane]
                    self.held -= len(part)
                    yield bytes(part)
            at += take

    def _begin_chunk(self) -> None:
        length, flags, lane = CHUNK.unpack(self._header)
        self._header.clear()
        if self.ended:
            raise ProtocolError("more after the end")
        if (length, flags, lane) == (0, END, CONTROL_LANE):
            self.ended = True
            return
        if not 0 < length <= CHUNK_BYTES_MAX:
            raise ProtocolError(f"a chunk of {length} bytes is outside 1..{CHUNK_BYTES_MAX}")
        if flags & ~LAST:
            raise ProtocolError(f"a chunk with unknown flags {flags:#x}")
        begun = len(self._unfinished.get(lane, b""))
        if begun + length > self.frame_bytes_max:
            raise ProtocolError(f"a frame of more than {self.frame_bytes_max} bytes on lane {lane}")
        if self.held + length > self._bytes_max:
            raise ProtocolError(f"more than {self._bytes_max} bytes in unfinished frames")
        if begun == 0 and len(self._unfinished) >= LANES_MAX:
            raise ProtocolError(f"more than {LANES_MAX} unfinished frames")
        self._remaining, self._last, self._lane = length, bool(flags & LAST), lane
