"""The next item while the last one is worked on: an iterator in a thread of its own.

The iterator is never more than `depth` items ahead; its exceptions come out where its items would have.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from typing import TypeVar

T = TypeVar("T")


class _End:
    """The last thing a producer hands over: how its iterator ended."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def ahead(items: Iterator[T], depth: int = 1) -> Generator[T]:
    """The same items, the next ones being made meanwhile.

    The generator is closed in the end, also when this one is closed early. Cost: a thread, from the second
    item on; closing waits for the item that is being made.
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
