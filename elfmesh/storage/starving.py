"""Waits for resources of the host (descriptors, memory, threads) and repeats the operation.

Without descriptors or memory any parser fails on any block, and no file can be opened. Counting the records
as parse errors, or stopping the agent, would be wrong, because the data is not at fault. The thread that
reads or writes waits and tries again, as a writer does on a full disk, so no operation is left incomplete.

The module owns the waiting threads and the reasons. The thread of the event loop never waits here, because it
could not answer clients meanwhile.
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
"""Pause between two attempts."""

SAY_AGAIN_S = 60.0
"""Time between two log lines about the same wait."""

_ERRNOS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EAGAIN)
_NO_THREAD = "can't start new thread"

FILES_SHARE = 4
"""A reader of files uses at most the process's limit of descriptors divided by this number."""

_waiting: dict[str, str] = {}
"""What each thread waits for, by name of the thread."""


_watchers: list[Callable[[], None]] = []
"""Called in a thread when it begins to wait, and when it continues."""


def watch(notified: Callable[[], None]) -> Callable[[], None]:
    """Call `notified` when a thread begins to wait or continues. The returned function ends this."""
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
    """Return what a thread whose name starts with `threads` waits for; "" if none waits."""
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
    """Return which limit of descriptors an error, or its cause, has met; "" if it has another reason."""
    for each in _chain(error):
        match each.errno if isinstance(each, OSError) else None:
            case errno.EMFILE:
                soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
                return f"the process has no file descriptor left (RLIMIT_NOFILE is {soft})"
            case errno.ENFILE:
                return "the host has no file descriptor left"
    return ""


def exhausted() -> str:
    """Return which limit of descriptors the process meets now, for libraries that report only a failure."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return no_descriptor(error)
    return ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__ or each.__context__


def retried(work: Callable[[], T], what: str, sleep: Callable[[float], None] = time.sleep) -> T:
    """Return the result of `work`. Repeats it while the host lacks a resource.

    Args:
        work: function that may be called repeatedly.
        what: name of the work in the log.
        sleep: waits for a number of seconds.

    Raises:
        Exception: any error of `work` that is not a lack of a resource.
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
                    log.info("%s continues after %.1f s", what, waited_s)
                return done
            sleep(AGAIN_S)
            waited_s += AGAIN_S
    finally:
        _reported(threading.current_thread().name, "")


def off_the_loop(work: Callable[[], T], what: str) -> T:
    """Run `work` as `retried` does, except in the main thread with the event loop, where it runs once.

    Raises:
        Exception: as `retried`; in the main thread, any error of `work`.
    """
    if threading.current_thread() is threading.main_thread():
        return work()
    return retried(work, what)


def opened(path: str | Path, flags: int, mode: int = 0o777) -> int:
    """Open a file as `os.open` does, but wait for a descriptor, except in the main thread.

    Raises:
        OSError: the file cannot be opened for another reason.
    """
    return off_the_loop(lambda: os.open(path, flags, mode), f"opening {path}")


def opened_file(path: Path, mode: str) -> BinaryIO:
    """Open a binary file as `Path.open` does; waits as `opened`. Raises other OSErrors."""
    return off_the_loop(lambda: cast(BinaryIO, path.open(mode)), f"opening {path}")


def wait_for_descriptor(what: str) -> None:
    """Return when a file can be opened; for operations that do not report a lack of descriptors."""
    off_the_loop(lambda: io.FileIO("/dev/null").close(), what)


def content(path: Path) -> bytes:
    """Return the content of a file; waits as `opened`. Raises other OSErrors."""
    return off_the_loop(path.read_bytes, f"reading {path}")


def listed(path: Path, pattern: str = "*") -> list[Path]:
    """Return the entries of a directory that match a pattern, in no particular order; waits as `opened`.

    Raises:
        OSError: the directory cannot be read for another reason.
    """
    return off_the_loop(lambda: [*path.glob(pattern)], f"listing {path}")


def files_max(wanted: int) -> int:
    """Return how many files a reader may hold open: `wanted`, or less to keep within RLIMIT_NOFILE."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft // FILES_SHARE))
