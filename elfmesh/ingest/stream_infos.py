"""Stream information that an agent announces, computed without loading the parsers into its process.

Parsers need Arrow and numpy, which are most of the memory of an agent without jobs. A child process therefore
makes them. If the child fails, the work is done in this process, so that errors are raised here.
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
    """Return the announced information of each stream."""
    from elfmesh.ingest.stream_formats import format_of

    return tuple(
        StreamInfo.of(name, config.format, format_of(config, name=name).static_schema)
        for name, config in streams.items()
    )


def in_a_child(work: Callable[[], T], kind: type[T]) -> T:
    """Return the result of `work` from a forked child; its type must be supported by msgpack.

    The work runs in this process if there are other threads, if Arrow is already loaded, or if the child
    fails.
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
    """Write the result and exit this process; the exit code is 1 if there is no result."""
    status = 1
    try:
        reported = msgspec.msgpack.encode(work())
        with os.fdopen(send, "wb") as pipe:
            pipe.write(reported)
        status = 0
    finally:
        os._exit(status)
