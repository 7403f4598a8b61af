"""Lack of a resource of the host: it says nothing about the bytes, so the part that needs it waits.

Without descriptors or memory any parser fails on any block, and no file can be opened. To count its records
as parse errors, or to end the agent, would be wrong. The thread that reads or writes waits where it is and
tries again, as a writer waits on a full disk: nothing is left half done.

Owns which threads wait, and why. The thread of the event loop never waits here: it would answer no client.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

log = logging.getLogger("elf.worker")
T = TypeVar("T")

AGAIN_S = 0.5
"""Between two attempts."""

SAY_AGAIN_S = 60.0
"""Between two lines of the log about the same wait."""

_ERRNOS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EAGAIN)
_NO_THREAD = "can't start new thread"

FILES_SHARE = 4
"""A follower of files takes at most this part of the process's descriptors."""

_waiting: dict[str, str] = {}
"""By name of the thread: what it waits for."""


_watchers: list[Callable[[], None]] = []
"""Called when a thread begins to wait, and when it goes on; in that thread."""


def watch(notified: Callable[[], None]) -> Callable[[], None]:
    """Have it called whenever a thread begins to wait or goes on, until what this returns is called."""
    _watchers.append(notified)
    return lambda: _watchers.remove(notified)


def _reported(thread: str, why: str) -> None:
    before = _waiting.pop(thread, "")
    if why:
        _waiting[thread] = why
    if bool(before) != bool(why):
        for notified in [*_watchers]:
            notified()


def problem(threads: str = "") -> str:
    """What one of the threads whose names begin so waits for; "" while none does."""
    return next((why for name, why in [*_waiting.items()] if name.startswith(threads)), "")


def is_lack(error: BaseException) -> bool:
    """Whether an error, or one it was raised from, is a lack of memory, descriptors or threads."""
    for each in _chain(error):
        if isinstance(each, MemoryError) or (isinstance(each, OSError) and each.errno in _ERRNOS):
            return True
        if isinstance(each, RuntimeError) and _NO_THREAD in str(each):
            return True
    return False


def no_descriptor(error: BaseException) -> str:
    """Whose descriptors are exhausted, by an error or one it was raised from; "" if it says nothing of it."""
    for each in _chain(error):
        match each.errno if isinstance(each, OSError) else None:
            case errno.EMFILE:
                soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
                return f"the process has no file descriptor left (RLIMIT_NOFILE is {soft})"
            case errno.ENFILE:
                return "the host has no file descriptor left"
    return ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__ or each.__context__


def retried(work: Callable[[], T], what: str, sleep: Callable[[float], None] = time.sleep) -> T:
    """The result of `work`, attempted again for as long as the host lacks a resource for it.

    Args:
        work: may be called any number of times.
        what: names it in the log.
        sleep: waits so many seconds.

    Raises:
        Exception: whatever `work` raises that is no lack of a resource.
    """
    waited_s, reported_s = 0.0, float("-inf")
    try:
        while True:
            try:
                done = work()
            except Exception as error:
                if not is_lack(error):
                    raise
                lack = ": ".join(filter(None, (no_descriptor(error), str(error) or type(error).__name__)))
                line = f"{what} waits for {waited_s:.0f} s: the host lacks a resource: {lack}"
                _reported(threading.current_thread().name, line)
                if waited_s - reported_s >= SAY_AGAIN_S:
                    log.error("%s", line)
                    reported_s = waited_s
            else:
                if waited_s:
                    log.info("%s goes on after %.1f s", what, waited_s)
                return done
            sleep(AGAIN_S)
            waited_s += AGAIN_S
    finally:
        _reported(threading.current_thread().name, "")


def off_the_loop(work: Callable[[], T], what: str) -> T:
    """The same in any thread but the main one, which has the event loop: there `work` is done once.

    Raises:
        Exception: as `retried`; in the main thread whatever `work` raises.
    """
    if threading.current_thread() is threading.main_thread():
        return work()
    return retried(work, what)


def opened(path: str | Path, flags: int, mode: int = 0o777) -> int:
    """`os.open` that waits for a descriptor, but for the main thread.

    Raises:
        OSError: it cannot be opened for another reason.
    """
    return off_the_loop(lambda: os.open(path, flags, mode), f"opening {path}")


def opened_file(path: Path, mode: str) -> BinaryIO:
    """`Path.open` of a binary file; waits as `opened`.

    Raises:
        OSError: it cannot be opened for another reason.
    """
    return off_the_loop(lambda: cast(BinaryIO, path.open(mode)), f"opening {path}")


def wait_for_descriptor(what: str) -> None:
    """Return once a file could be opened; for calls that say nothing of a lack."""
    off_the_loop(lambda: io.FileIO("/dev/null").close(), what)


def content(path: Path) -> bytes:
    """All of a file; waits as `opened`.

    Raises:
        OSError: it cannot be read for another reason.
    """
    return off_the_loop(path.read_bytes, f"reading {path}")


def listed(path: Path, pattern: str = "*") -> list[Path]:
    """What a directory has under such names, in no order; waits as `opened`.

    Raises:
        OSError: it cannot be read for another reason.
    """
    return off_the_loop(lambda: [*path.glob(pattern)], f"listing {path}")


def files_max(wanted: int) -> int:
    """How many files a follower may hold open: `wanted`, or its share of RLIMIT_NOFILE where that is less."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft // FILES_SHARE))
