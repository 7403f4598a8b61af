"""Blocks of whole records, where a record may be several lines, as the stream's framing says.

The lines of a record that may go on are kept back and not counted as taken, so that every offset is a
record's beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from elfmesh.ingest.parsers.framing import Framing
from elfmesh.ingest.sources.blocks import LineCutter
from elfmesh.limits import LINE_BYTES_MAX


class RecordCutter(LineCutter):
    """Turns chunks of bytes into blocks of whole records. Holds what the framing's bounds allow, and a chunk.

    A line beyond the limit ends the record before it, whatever it would have been.
    """

    __slots__ = ("_framing", "_held")

    def __init__(self, line_bytes_max: int = LINE_BYTES_MAX, *, framing: Framing) -> None:
        super().__init__(line_bytes_max)
        self._framing = framing.fresh()
        self._held = b""

    @property
    def taken(self) -> int:
        return self._whole - len(self._held)

    @property
    def held(self) -> int:
        return len(self._held)

    @property
    def pending(self) -> int:
        return super().pending + len(self._held)

    def push(self, chunk: bytes) -> bytes:
        overlong = self.overlong
        whole = self._held + super().push(chunk)
        closed = len(whole) if self.overlong > overlong else self._framing.complete(whole)
        self._held = whole[closed:]
        return whole[:closed]

    def flush(self) -> bytes:
        data, self._held = self._held, b""
        return data

    def finish(self) -> bytes:
        return self.flush() + super().finish()


def cutter_for(framing: Framing | None) -> Callable[[int], LineCutter]:
    return LineCutter if framing is None else partial(RecordCutter, framing=framing)
