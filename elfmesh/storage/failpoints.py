"""Named places at which a test can kill, stop or fail an agent: `ELF_FAILPOINT=name[:n[:action]],...`.

If nothing is armed, a place costs one look at an empty dictionary; no place is reached per record.

  ELF_FAILPOINT=frame.sync:3            SIGKILL at the third sync of the frame log
  ELF_FAILPOINT=persist.vote:1:stop     SIGSTOP before the first vote is written
  ELF_FAILPOINT=storage.append:2:full   the second append finds the disk full

`persist` matches every write of state, `persist.vote` only those with this detail.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from elfmesh.errors import ConfigError

log = logging.getLogger("elf.agent")
VARIABLE = "ELF_FAILPOINT"
PAUSE_S = 3.0
"""Duration of the action `pause`."""

PLACES = {
    "seal": "intervals of a job are sealed in memory, and nothing is on disk yet",
    "merge": "partials of an interval are about to be merged in a tree (detail: its interval)",
    "finalise": "the rows of an interval are about to be computed (detail: its job and interval)",
    "frame.write": "a frame is about to be appended to the frame log",
    "frame.sync": "frames are appended, and not synced yet",
    "frame.synced": "frames are durable, and no agent was notified yet",
    "compact": "the frame log is about to be rewritten",
    "compacted": "the frame log was rewritten, and not opened again yet",
    "storage.append": "bytes are about to be appended to a file",
    "storage.sync": "a file is about to be synced",
    "storage.replace": "the new content of a file is synced under another name",
    "storage.replaced": "the new content has its name, and the directory is not synced yet",
    "send": "a message is about to be sent (detail: its class)",
    "sent": "a message was handed to the transport (detail: its class)",
    "load": "a module of the engine is about to be loaded (detail: its name)",
    "activate": "the worker of a job is about to start",
    "results.append": "a closed interval is about to be added to its results log",
    "results.appended": "a closed interval is durable, and no agent was notified yet",
    "letter": "a dead letter is about to be written",
    "kafka.noted": "the position of messages from Kafka is recorded, and they are not in the spool yet",
    "kafka.spooled": "messages from Kafka are in the spool, and the next position is not recorded yet",
    "archive.write": "a file of an archive is about to be written",
    "archive.written": "a file of an archive is written, and the source position is not advanced yet",
    "files.staged": "compacted files are written to the staging directory",
    "files.renamed": "compacted files have their names, and have not replaced the small ones yet",
    "files.swapped": "compacted files have replaced the small ones, and the commit log does not say so yet",
    "files.named": "the commit log records the compacted files, and the small ones are still on disk",
    "sink.write": "a result is about to be written to a sink (detail: its type)",
    "sink.written": "a sink has a result, and its position is not advanced yet (detail: its type)",
    "persist": "state is about to be written (detail: its kind)",
    "persisted": "state is durable, and the messages that wait for it were not sent yet (detail: its kind)",
}


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _broken() -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def _pause() -> None:
    time.sleep(PAUSE_S)


def _hang() -> None:
    threading.Event().wait()


ACTIONS: dict[str, Callable[[], None]] = {
    "kill": _kill,
    "stop": _stop,
    "hang": _hang,
    "pause": _pause,
    "full": _full,
    "error": _broken,
}
"""Actions. `full` and `error` apply only to the places of `storage`. A hang never ends."""


@dataclass(slots=True)
class _Armed:
    """An armed place. `left` counts down to the time at which `action` is performed, once."""

    left: int
    action: Callable[[], None]


_armed: dict[str, _Armed] = {}
_lock = threading.Lock()


def reach(name: str, detail: str = "") -> None:
    """Called at a named place. Cost when nothing is armed: a call and a comparison."""
    if _armed:
        _reached(name, detail)


@contextlib.contextmanager
def armed(name: str, action: Callable[[], None], n: int = 1) -> Iterator[None]:
    """Perform an action in the thread that reaches a place of PLACES for the n-th time (from 1)."""
    _arm(name, n, action)
    try:
        yield
    finally:
        _armed.pop(name, None)


def arm_from(environment: Mapping[str, str]) -> None:
    """Arm the places that the environment names. Raises ConfigError for an unknown place."""
    for item in filter(None, environment.get(VARIABLE, "").split(",")):
        name, _, rest = item.partition(":")
        number, _, action = rest.partition(":")
        if not (number or "1").isdecimal() or (action or "kill") not in ACTIONS:
            raise ConfigError(f"{item!r} is not name[:n[:action]]", where=VARIABLE)
        _arm(name, int(number or "1"), ACTIONS[action or "kill"])
        log.warning("for tests only: armed %s", item)


def _arm(name: str, n: int, action: Callable[[], None]) -> None:
    place = max((known for known in PLACES if name == known or name.startswith(f"{known}.")), default="")
    if not place or n < 1:
        raise ConfigError(
            f"there is no place {name!r} to be reached {n} times",
            where=VARIABLE,
            hint=f"Places: {', '.join(PLACES)}.",
        )
    _armed[name] = _Armed(n, action)


def _reached(name: str, detail: str) -> None:
    for key in (name, f"{name}.{detail}"):
        with _lock:
            found = _armed.get(key)
            if found is None:
                continue
            found.left -= 1
            if found.left:
                continue
            del _armed[key]
        found.action()
