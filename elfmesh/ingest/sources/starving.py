"""Lack of a resource while a block is parsed: a state of the host, which says nothing about the bytes.

Without descriptors or memory any parser fails on any block. To count its records as parse errors would be
wrong, so the thread that reads waits and parses the block again, as a writer waits on a full disk.
"""

from __future__ import annotations

import errno
import logging
import resource
import time
from collections.abc import Callable
from typing import TypeVar

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


def is_lack(error: BaseException) -> bool:
    """Whether an error, or one it was raised from, is a lack of memory, descriptors or threads."""
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        if isinstance(each, MemoryError) or (isinstance(each, OSError) and each.errno in _ERRNOS):
            return True
        if isinstance(each, RuntimeError) and _NO_THREAD in str(each):
            return True
        each = each.__cause__ or each.__context__
    return False


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
    while True:
        try:
            done = work()
        except Exception as error:
            if not is_lack(error):
                raise
            if waited_s - reported_s >= SAY_AGAIN_S:
                log.error("%s waits for %.0f s: the host lacks a resource: %s", what, waited_s, error)
                reported_s = waited_s
        else:
            if waited_s:
                log.info("%s goes on after %.1f s", what, waited_s)
            return done
        sleep(AGAIN_S)
        waited_s += AGAIN_S


def files_max(wanted: int) -> int:
    """How many files a follower may hold open: `wanted`, or its share of RLIMIT_NOFILE where that is less."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft // FILES_SHARE))
