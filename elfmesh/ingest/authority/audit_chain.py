"""The lines of the audit log and their chain of hashes: reading and verifying them. Writes nothing.

Each line has the hash of the line before, also across files, so that a changed, removed or moved line in the
middle is found. `audit.head` beside the log finds a missing end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from elfmesh.errors import DataError, ProtocolError
from elfmesh.sums import json_checked
from elfmesh.wire import UNREADABLE

NAME, HEAD = "audit.log", "audit.head"
GENESIS = "0" * 64
JSON = msgspec.json.Encoder(order="deterministic")


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Line of the audit log.

    Attributes:
        seq: 1, 2, ... without a gap.
        at: microseconds since the epoch, by this host's clock.
        who: the caller's name, verified or not; see `source`.
        source: how the caller was authenticated: certificate, token, loopback, unix socket, overlay.
        job: "namespace/name", if the action is about a job.
        digest: SHA-256 of the job's text.
        why: reason of a refusal.
        count: number of actions in this line.
        before: hash of the line before.
        hash: hash of this line without this field.
    """

    seq: int
    at: int
    who: str
    source: str
    what: str
    allowed: bool
    job: str = ""
    version: int = 0
    digest: str = ""
    why: str = ""
    count: int = 1
    before: str = GENESIS
    hash: str = ""

    def hashed(self) -> AuditEntry:
        plain = JSON.encode(msgspec.structs.replace(self, hash=""))
        return msgspec.structs.replace(self, hash=hashlib.sha256(plain).hexdigest())


class AuditHead(msgspec.Struct, frozen=True):
    """The newest line, by its number and hash, as `audit.head` states it."""

    seq: int = 0
    hash: str = GENESIS


def decode_head(raw: bytes) -> AuditHead:
    """Return the content of `audit.head`. Raises ProtocolError or an error of `UNREADABLE`."""
    return msgspec.json.decode(json_checked(raw), type=AuditHead)


def number_of(name: str) -> int:
    """Return the number at the end of the name of a complete file, 0 if there is none."""
    tail = name.rpartition(".")[2]
    return int(tail) if tail.isdecimal() else 0


def files_of(place: Path) -> list[Path]:
    """Return the files of a log, oldest first, for a data directory or a single file."""
    if place.is_dir():
        older = [path for path in place.glob(f"{NAME}.*") if path.suffix[1:].isdecimal()]
        found = sorted(older, key=lambda path: number_of(path.name))
        found += [place / NAME] if (place / NAME).exists() else []
    else:
        found = [place] if place.exists() else []
    if not found:
        raise DataError("there is no audit log", where=str(place), hint="Name a file or a data directory.")
    return found


def read_entries(path: Path) -> Iterator[tuple[int, AuditEntry]]:
    """Yield the lines of a file with their numbers. Raises DataError for an invalid or changed line."""
    yield from entries_in(path, path.read_bytes())


def entries_in(path: Path, data: bytes) -> Iterator[tuple[int, AuditEntry]]:
    """Yield the lines of a file of this content, as `read_entries`."""
    for number, line in enumerate(data.splitlines(), 1):
        try:
            entry = msgspec.json.decode(line, type=AuditEntry)
        except UNREADABLE as error:
            raise DataError(f"is not a line of an audit log: {error}", where=f"{path}:{number}") from None
        if entry.hashed().hash != entry.hash or JSON.encode(entry) != line:
            raise DataError("was changed: its hash differs", where=f"{path}:{number}")
        yield number, entry


def check_chain(files: Iterable[tuple[Path, bytes]]) -> tuple[int, AuditEntry | None]:
    """Check the chain of files, oldest first.

    Returns the first number and the last line. Raises DataError.
    """
    first, last = 0, None
    for path, data in files:
        for number, entry in entries_in(path, data):
            where = f"{path}:{number}"
            if last is None:
                first = entry.seq
                if entry.seq == 1 and entry.before != GENESIS:
                    raise DataError("is not the first line", where=where)
            elif (entry.seq, entry.before) != (last.seq + 1, last.hash):
                raise DataError(f"does not follow line {last.seq}: lines were removed or moved", where=where)
            last = entry
    return first, last


def verify(place: Path) -> tuple[int, int, str]:
    """Check the chain of a log. Returns the first and last number and the newest hash. Raises DataError."""
    paths = files_of(place)
    first, last = check_chain((path, path.read_bytes()) for path in paths)
    if last is None:
        raise DataError("has no lines", where=str(place))
    beside = (place if place.is_dir() else place.parent) / HEAD
    if place.is_dir() and beside.exists():
        try:
            head = decode_head(beside.read_bytes())
        except (*UNREADABLE, ProtocolError) as error:
            raise DataError(f"is damaged: {error}", where=str(beside)) from None
        if head.seq > last.seq or (head.seq == last.seq and head.hash != last.hash):
            raise DataError(f"its end is missing; it had {head.seq} lines", where=str(paths[-1]))
    return first, last.seq, last.hash
