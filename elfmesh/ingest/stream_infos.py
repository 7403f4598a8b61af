"""What an agent announces of its streams, found out without keeping the parsers in memory.

Making a parser needs Arrow and numpy, most of what an agent without jobs would hold, so a child process does
it. What a child cannot do is done here, so that errors are raised here.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from elfmesh.control.protocol.events import StreamInfo
from elfmesh.ingest.stream_settings import StreamConfig

T = TypeVar("T")


def infos_of(streams: Mapping[str, StreamConfig]) -> tuple[StreamInfo, ...]:
    """What is announced of each stream."""
    from elfmesh.ingest.stream_formats import format_of

    return tuple(
        StreamInfo.of(name, config.format, format_of(config, name=name).static_schema)
        for name, config in streams.items()
    )


def in_a_child(work: Callable[[], T], kind: type[T]) -> T:
    """The result of `work` (of a kind that msgpack carries), done by a fork; its exceptions are raised here.

    Where there are threads already, or Arrow is loaded anyway, it is done here.
    """
    if threading.active_count() > 1 or "pyarrow" in sys.modules or not hasattr(os, "fork"):
        return work()
    receive, send = os.pipe()
    child = os.fork()
    if not child:
        _answer(work, send)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        reported = pipe.read()
    _, status = os.waitpid(child, 0)
    if status:
        return work()
    return msgspec.msgpack.decode(reported, type=kind)


def _answer(work: Callable[[], T], send: int) -> None:
    """Write the result and end this process, with 1 if there is none."""
    status = 1
    try:
        reported = msgspec.msgpack.encode(work())
        with os.fdopen(send, "wb") as pipe:
            pipe.write(reported)
        status = 0
    finally:
        os._exit(status)
