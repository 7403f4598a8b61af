"""Audit log of administrative actions: one JSON line per action, each with the hash of the line before.

`audit.log` is the current file; `audit.log.1` and so on are complete, and the oldest are deleted. A line is
synced before the action happens; if it cannot be written, the action is refused. A line contains no text of a
job, no token and no key. The chain of hashes continues across files, so changes in the middle are detected. A
truncated tail is detected only with `audit.head`, which is written beside the log with a delay. An attacker
who can write one file can write both, so store the newest hash elsewhere (`elf describe agent` shows it).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from elfmesh.api.identity.principal import Principal
from elfmesh.errors import ProtocolError, StorageError
from elfmesh.ingest.authority.audit_chain import (
    HEAD,
    JSON,
    NAME,
    AuditEntry,
    AuditHead,
    decode_head,
    number_of,
)
from elfmesh.ingest.authority.settings import AuditConfig
from elfmesh.ingest.host import Executor
from elfmesh.storage.storage import Storage
from elfmesh.sums import json_with_sum
from elfmesh.text import printable
from elfmesh.wire import UNREADABLE

log = logging.getLogger("elf.agent")
AWAY = f"Look at it, then move {NAME} and {HEAD} away."
HEAD_S = 0.5
"""Maximum delay of `audit.head`, because replacing a file costs three syncs and no action should wait for
them. A head that is behind after a crash never refers to a missing line."""

TEXT_MAX = 512
REFUSALS_A_MINUTE = 60
"""Maximum number of refused requests per minute that get a line of their own; further ones are only
counted."""
REFUSED_DAYS = 30
"""Number of days of nothing but refusals that fill the files. On each day, refusals beyond this share are
only counted, so that callers without rights cannot displace older entries."""
_DAY = 24 * 60


class AuditLog:
    """Audit log of one agent. Thread-safe.

    `head_s` is the delay after which a separate thread writes `audit.head`; 0: it is written with the line.
    Raises StorageError, and changes nothing, if the existing files are not a valid chain.
    """

    def __init__(
        self,
        storage: Storage,
        wall_us: Callable[[], int],
        *,
        file_bytes_max: int = 16_000_000,
        files: int = 8,
        head_s: float = 0.0,
    ) -> None:
        self._storage, self._wall_us = storage, wall_us
        self._bytes_max, self._files, self._head_s = file_bytes_max, files, head_s
        self._lock, self._keeping = threading.Lock(), threading.Lock()
        self._follower: threading.Timer | None = None
        self._behind = False  # writing the head failed; it must succeed before another line is written
        self._minute, self._refused, self._unsaid = 0, 0, 0
        self._day, self._refused_bytes = 0, 0
        self._file = storage.open(NAME)
        self._head = self._kept = self._recovered()

    def write(
        self,
        who: str,
        source: str,
        what: str,
        *,
        allowed: bool,
        job: str = "",
        version: int = 0,
        digest: str = "",
        why: str = "",
    ) -> None:
        """Write a line durably. If it raises StorageError, the action must not happen."""
        with self._lock:
            if not allowed and self._too_many():
                self._unsaid += 1
                return
            if self._unsaid:
                unsaid, self._unsaid = self._unsaid, 0
                self._add(who="", source="", what="refused", allowed=False, count=unsaid)
            size = self._add(
                who=_cut(who), source=_cut(source), what=_cut(what), allowed=allowed, job=_cut(job),
                version=version, digest=digest, why=_cut(why),
            )  # fmt: skip
            self._refused_bytes += 0 if allowed else size

    def describe(self) -> dict[str, Any]:
        """Return the newest line's number and hash, for operators who store them elsewhere."""
        return {"lines": self._head.seq, "hash": self._head.hash}

    def close(self) -> None:
        """Close the file; first write the head of the last line, if possible."""
        with self._lock:
            follower, self._follower = self._follower, None
        if follower is not None:
            follower.cancel()
            follower.join()
            self._follow()
        self._file.close()

    def _follow(self) -> None:
        try:
            self._keep()
        except StorageError as error:
            log.error("%s: %s", HEAD, error)
            self._behind = True
        with self._lock:
            if self._follower is threading.current_thread():  # else the log is being closed
                self._follower = None
                if self._kept is not self._head and not self._behind:  # lines came meanwhile
                    self._follow_later()

    def _follow_later(self) -> None:
        """One thread at a time: it may wait for long until it can write."""
        self._follower = threading.Timer(self._head_s, self._follow)
        self._follower.daemon = True
        self._follower.start()

    def _keep(self) -> None:
        with self._keeping:  # never an older one over a newer one
            head = self._head
            self._storage.write(HEAD, json_with_sum(msgspec.json.encode(head)))
            self._kept = head

    def _too_many(self) -> bool:
        minute = self._wall_us() // 60_000_000
        if minute != self._minute:
            self._minute, self._refused = minute, 0
        if minute // _DAY != self._day:
            self._day, self._refused_bytes = minute // _DAY, 0
        self._refused += 1
        share = self._bytes_max * self._files // REFUSED_DAYS
        return self._refused > REFUSALS_A_MINUTE or self._refused_bytes >= share

    def _add(self, **fields: Any) -> int:
        if self._behind:
            self._keep()
            self._behind = False
        if self._file.size() >= self._bytes_max:
            self._rotate()
        head = self._head
        entry = AuditEntry(seq=head.seq + 1, at=self._wall_us(), before=head.hash, **fields).hashed()
        line = JSON.encode(entry) + b"\n"
        self._file.append(line)
        self._file.sync()
        self._head = AuditHead(entry.seq, entry.hash)
        if self._head_s <= 0.0:
            self._keep()
        elif self._follower is None:
            self._follow_later()
        return len(line)

    def _rotate(self) -> None:
        """Start a new file and delete the oldest.

        A crash in between leaves a copy, which the next start deletes.
        """
        data = self._file.read()
        numbers = sorted(number_of(name) for name in self._storage.names(f"{NAME}."))
        self._storage.write(f"{NAME}.{(numbers[-1] if numbers else 0) + 1}", data)
        self._file.cut(0)
        self._file.sync()
        for number in numbers[: max(0, len(numbers) + 2 - self._files)]:
            self._storage.delete(f"{NAME}.{number}")

    def _recovered(self) -> AuditHead:
        """Return the end of the chain. An incomplete last line is removed; its action has not happened."""
        where = self._storage.where(NAME)
        data = self._file.read()
        whole = data.rfind(b"\n") + 1
        lines = data[:whole].splitlines()
        numbers = sorted(number_of(name) for name in self._storage.names(f"{NAME}."))
        over = (self._storage.read(f"{NAME}.{numbers[-1]}") or b"") if numbers else b""
        if numbers and not lines:
            lines = over.splitlines()
        try:
            last = msgspec.json.decode(lines[-1], type=AuditEntry) if lines else None
        except UNREADABLE as error:
            raise StorageError(f"is damaged: {error}", where=where, hint=AWAY) from None
        if last is not None and last.hashed().hash != last.hash:
            raise StorageError("is damaged: its last line has a different hash", where=where, hint=AWAY)
        raw = self._storage.read(HEAD)
        try:
            kept = AuditHead() if raw is None else decode_head(raw)
        except (*UNREADABLE, ProtocolError) as error:
            raise StorageError(
                f"is damaged: {error}", where=self._storage.where(HEAD), hint="Look at it, then move it away."
            ) from None
        found = AuditHead() if last is None else AuditHead(last.seq, last.hash)
        if found.seq < kept.seq:
            raise StorageError(
                f"has {found.seq} lines, and had {kept.seq}",
                where=where,
                hint=f"The end of the file was removed. {AWAY}",
            )
        if found.seq == kept.seq and found.hash != kept.hash:
            raise StorageError(
                "its last line differs from the line that was written",
                where=where,
                hint=f"The file was changed. {AWAY}",
            )
        if numbers and data[:whole] == over:
            self._file.cut(0)
        elif whole < len(data):
            self._file.cut(whole)
        return found


@dataclass(frozen=True, slots=True)
class AuditedApi:
    """`Recorder` of the API; writes in a thread."""

    log: AuditLog
    executor: Executor

    async def record(
        self, caller: Principal, action: str, *, allowed: bool, job: str = "", digest: str = "", why: str = ""
    ) -> None:
        write = partial(
            self.log.write,
            caller.name,
            caller.source,
            action,
            allowed=allowed,
            job=job,
            digest=digest,
            why=why,
        )
        await self.executor.run("audit", write)


def open_audit(config: AuditConfig, storage: Storage, wall_us: Callable[[], int]) -> AuditLog:
    return AuditLog(storage, wall_us, file_bytes_max=config.file_bytes_max, files=config.files, head_s=HEAD_S)


def _cut(text: str) -> str:
    return printable(text)[:TEXT_MAX]
