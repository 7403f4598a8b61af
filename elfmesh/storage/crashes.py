"""Detects jobs that kill the agent, so that one job cannot end the agent at each start.

A job whose interval does not fit into memory gets the process killed, and the next start reads the same
records. Therefore its name and place are written to a mapped file before it is evaluated; the kernel keeps
the file when the process dies. After `DEATHS_MAX` deaths at one place the job is held. Intervals at a master
and partials in a tree are recorded in the same way: after `DEATHS_MAX` deaths the interval is refused, and
after deaths at `INTERVALS_MAX` intervals all intervals of the job are refused. The file is never synced,
because a power failure is not caused by a job. Entries that exist at an orderly stop do not count as deaths.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import mmap
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

import msgspec

from elfmesh.errors import ProtocolError, RuntimeFailure
from elfmesh.storage.results.segment import private_file
from elfmesh.sums import json_checked, json_with_blank_sum
from elfmesh.wire import UNREADABLE

log = logging.getLogger("elf.agent")
EVALUATING_FILE, DEATHS_FILE = "evaluating", "deaths.json"
SLOT_BYTES, SLOTS = 512, 128
"""Number of entries; larger than the number of threads."""

NAME_BYTES = (SLOT_BYTES - len('\1["",""]')) // 2
"""Maximum size of each of the two names in an entry. A longer name is shortened, so that its deaths count."""

DEATHS_MAX = 2
HINT = "Group by fewer or shorter keys, or raise limits.memory."
HOLD_S = 3600.0
"""Time after which a start tries the job again, because an operator may have increased the memory."""

INTERVALS_MAX = 3
"""Number of refused intervals of one job version, or of one tree, beyond which all others are refused as
well. A crash may leave several entries, all but one of which may be innocent."""

INTERVAL = ", interval "
"""Separator before the number in the name of an interval's work."""

JOBS_MAX = 256
"""Maximum number of jobs, and intervals of jobs, whose deaths are remembered."""


class Death(msgspec.Struct, frozen=True):
    """Deaths of the process at one place; `place` is "" for the work of an interval."""

    place: str
    count: int
    last_s: float


def decode_deaths(raw: bytes) -> dict[str, Death]:
    return msgspec.json.decode(json_checked(raw), type=dict[str, Death])


class CrashGuard:
    """Records what is evaluated, and refuses what has killed the process. Opening counts a death."""

    def __init__(self, directory: Path, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._path = directory / DEATHS_FILE
        self._deaths = self._read()
        self._lock = threading.Lock()  # guards _free
        self._free = list(range(SLOTS))
        self._stopping = False
        found = self._open(directory / EVALUATING_FILE)
        for job, place in found:
            before = self._deaths.get(job)
            count = before.count + 1 if before is not None and before.place == place else 1
            self._deaths.pop(job, None)
            self._deaths[job] = Death(place, count, now_s())
            if count < DEATHS_MAX:
                log.warning("killed while %s (%d times)", _doing(job, place), count)
            else:
                log.error("killed while %s (%d times), it is not tried again now", _doing(job, place), count)
        if found:
            self._write()

    def check(self, job: str) -> None:
        death = self._deaths.get(_short(job))
        if death is not None and self._holds(death):
            raise RuntimeFailure(
                f"the agent was killed {death.count} times while it evaluated this job at {death.place};"
                f" the job is held here for {HOLD_S / 3600:.0f} h",
                hint="Group by fewer or shorter keys, or raise limits.memory, and update the job;"
                " a restart after that time tries it again.",
            )

    @contextlib.contextmanager
    def making(self, what: str, interval: int) -> Iterator[None]:
        """Record the work for an interval during the block. Cost: as `evaluating`.

        Raises:
            RuntimeFailure: the process has died of this interval, or of others of the same job or tree.
        """
        name = f"{what}{INTERVAL}{interval}"
        if self._deaths:
            self._refuse(what, name)
        with self.evaluating(name, ""):
            yield

    def _refuse(self, what: str, name: str) -> None:
        death = self._deaths.get(_short(name))
        if death is not None and self._holds(death):
            raise RuntimeFailure(
                f"an agent was killed {death.count} times while {_doing(name, '')}", hint=HINT
            )
        held = [each for other, each in self._deaths.items() if other.startswith(what + INTERVAL)]
        held = [each for each in held if self._holds(each)]
        if len(held) >= INTERVALS_MAX:
            deaths = sum(each.count for each in held)
            raise RuntimeFailure(
                f"an agent was killed {deaths} times while {what} were made, of {len(held)} intervals; it"
                f" makes none for {HOLD_S / 3600:.0f} h",
                hint=HINT,
            )

    def _holds(self, death: Death) -> bool:
        return death.count >= DEATHS_MAX and self._now_s() < death.last_s + HOLD_S

    @property
    def held(self) -> dict[str, str]:
        """Return the jobs that are held and why, for display."""
        return {
            job: f"the agent was killed {death.count} times while {_doing(job, death.place)}; the last time"
            f" at {datetime.fromtimestamp(death.last_s, UTC):%Y-%m-%dT%H:%M:%SZ}, and for"
            f" {HOLD_S / 3600:.0f} h from then it does not try again"
            for job, death in self._deaths.items()
            if self._holds(death)
        }

    @contextlib.contextmanager
    def evaluating(self, job: str, place: str) -> Iterator[None]:
        """Record what is evaluated during the block. Cost: two copies into mapped memory."""
        with self._lock:
            slot = self._free.pop() if self._free and not self._stopping else None
        if slot is None:
            yield
            return
        begin = slot * SLOT_BYTES
        entry = msgspec.json.encode((_short(job), _short(place)))
        self._map[begin + 1 : begin + 1 + len(entry)] = entry
        self._map[begin + 1 + len(entry) : begin + SLOT_BYTES] = bytes(SLOT_BYTES - 1 - len(entry))
        self._map[begin] = 1
        try:
            yield
        finally:
            self._map[begin] = 0
            with self._lock:
                self._free.append(slot)

    def stop(self) -> None:
        """Record that the process was asked to stop, so that its end is not attributed to a job."""
        self._stopping = True
        self._clear()

    def _clear(self) -> None:
        self._map[: SLOT_BYTES * SLOTS] = bytes(SLOT_BYTES * SLOTS)

    def _open(self, path: Path) -> list[tuple[str, str]]:
        self._map = _mapped(path, SLOT_BYTES * SLOTS)
        found = []
        for slot in range(SLOTS):
            raw = self._map[slot * SLOT_BYTES : (slot + 1) * SLOT_BYTES]
            if raw[0] == 1:
                with contextlib.suppress(*UNREADABLE):
                    found.append(msgspec.json.decode(raw[1:].rstrip(b"\0"), type=tuple[str, str]))
        self._clear()
        return found

    def _read(self) -> dict[str, Death]:
        try:
            return decode_deaths(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (*UNREADABLE, ProtocolError, OSError) as error:
            log.error("%s is damaged, deaths of this agent are counted from now on: %s", self._path, error)
            return {}

    def _write(self) -> None:
        newest = dict(list(self._deaths.items())[-JOBS_MAX:])
        try:
            with private_file(self._path) as file:
                file.write(json_with_blank_sum(msgspec.json.encode(newest)))
        except OSError as error:
            log.warning("%s cannot be written: %s", self._path, error)


def _doing(job: str, place: str) -> str:
    return f"job {job} was evaluated at {place}" if place else f"{job} were made"


def _short(name: str) -> str:
    """Return the name, or the beginning of a long name with a digest: at most `NAME_BYTES` of JSON."""

    def taken(text: str) -> int:
        return len(msgspec.json.encode(text)) - 2

    if taken(name) <= NAME_BYTES:
        return name
    digest = "~" + hashlib.sha256(name.encode()).hexdigest()[:16]
    head = name[: NAME_BYTES - len(digest)]
    while taken(head) + len(digest) > NAME_BYTES:
        head = head[:-1]
    return head + digest


def _mapped(path: Path, size: int) -> mmap.mmap:
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(handle, size)
            os.posix_fallocate(handle, 0, size)
            return mmap.mmap(handle, size)
        finally:
            os.close(handle)
    except OSError as error:
        log.warning("%s cannot be written: %s", path, error)
        return mmap.mmap(-1, size)


class NoGuard:
    """Guard that refuses nothing, for processes without a data directory and for simulated hosts."""

    held: Mapping[str, str] = MappingProxyType({})

    def check(self, job: str) -> None: ...

    def making(self, what: str, interval: int) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def evaluating(self, job: str, place: str) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def stop(self) -> None: ...


NO_GUARD = NoGuard()
