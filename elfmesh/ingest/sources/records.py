"""Blocks of complete records, which may have several lines according to the stream's framing.

The lines of a record that may continue are kept back and are not counted as read, so that every offset is the
beginning of a record.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from elfmesh.ingest.parsers.framing import Framing
from elfmesh.ingest.sources.blocks import LineCutter
from elfmesh.limits import LINE_BYTES_MAX


class RecordCutter(LineCutter):
    """Converter from chunks of bytes to blocks of complete records; keeps one record and a chunk in memory.

    A line beyond the limit ends the record before it, whatever its content is.
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
