"""Produces the next items of an iterator in a separate thread while the caller processes the current one.

The iterator is at most `depth` items ahead. Its exceptions are raised in place of the items.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from typing import TypeVar

T = TypeVar("T")


class _End:
    """Marks the end of an iterator, with its error if there is one."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def ahead(items: Iterator[T], depth: int = 1) -> Generator[T]:
    """Yield the items of an iterator, which a thread produces in advance.

    The iterator is closed at the end, also if this generator is closed early. Cost: a thread from the second
    item on; closing waits for the item in progress.
    """
    first = next(items, _END)
    if isinstance(first, _End):
        return
    room = threading.Semaphore(depth)
    made: queue.SimpleQueue[T | _End] = queue.SimpleQueue()
    stopped = threading.Event()

    def produce() -> None:
        error: BaseException | None = None
        try:
            while room.acquire() and not stopped.is_set():
                item = next(items, _END)
                if isinstance(item, _End):
                    break
                made.put(item)
        except BaseException as raised:
            error = raised
        made.put(_End(error))

    thread = threading.Thread(target=produce, name="elf-ahead", daemon=True)
    thread.start()
    try:
        yield first
        while not isinstance(item := made.get(), _End):
            room.release()
            yield item
        if item.error is not None:
            raise item.error
    finally:
        stopped.set()
        room.release()
        thread.join()
        close = getattr(items, "close", None)
        if close is not None:
            close()


_END = _End(None)
