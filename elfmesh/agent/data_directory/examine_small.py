"""Examines the small files of a data directory, which are replaced as a whole, and the audit log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from elfmesh.agent.archive.archive import STATE, decode_state, newest_file
from elfmesh.agent.data_directory.repair import Finding, Repair, aside, aside_with
from elfmesh.agent.sinks.base import Position
from elfmesh.errors import DataError, ProtocolError, StorageError
from elfmesh.ingest.authority import audit, audit_chain, signatures
from elfmesh.ingest.inputs.kafka_place import PLACE, decode_place
from elfmesh.ingest.inputs.spool import FILE_NAME as SPOOL
from elfmesh.ingest.inputs.spool import whole_lines_of
from elfmesh.storage import crashes
from elfmesh.storage.storage import MemoryStorage
from elfmesh.sums import json_checked
from elfmesh.wire import UNREADABLE

Kind = tuple[str, Callable[[bytes], object], str, Callable[[Path], Repair]]


def _move(what: str) -> Callable[[Path], Repair]:
    return lambda path: aside(path, what)


def _position(data: bytes) -> object:
    return msgspec.json.decode(json_checked(data), type=Position)


def _refused(data: bytes) -> object:
    return msgspec.json.decode(json_checked(data), type=dict)


KINDS: tuple[Kind, ...] = (
    (
        "sinks/*.positions/**/*",
        _position,
        "the sink waits, and reports the damage",
        _move("the sink sends the results in the log again"),
    ),
    ("sinks/*/*/*/*.json", _refused, "leaves it unchanged", _move("the refused record is no longer known")),
    (
        f"spool/*/{PLACE}",
        decode_place,
        "does not read the topic, and reports the damage",
        _move("the topic is read from the configured position"),
    ),
    (
        signatures.FILE,
        signatures.decode_memory,
        "does not start if signatures are checked",
        _move("serials of signed versions that it has seen are forgotten"),
    ),
    (crashes.DEATHS_FILE, crashes.decode_deaths, "counts deaths from now on", _move("deaths are forgotten")),
)
"""Files that are parsed as a whole: pattern, parser, what the agent does, what `elf repair` does."""


def small_files(root: Path) -> Iterator[Finding]:
    for pattern, read, agent, repair in KINDS:
        for path in sorted(each for each in root.glob(pattern) if each.is_file()):
            if path.name.endswith((".new", ".damaged")):
                continue
            if (problem := _problem(path, read)) is not None:
                yield Finding(path, 0, problem, agent, repair(path))
    yield from _older_places(root)
    for path in sorted((root / "archive").glob(f"*/host=*/{STATE}")):
        if path.parent.name.endswith(".damaged"):
            continue
        problem = _problem(path, decode_state)
        if problem is None and newest_file(path.parent) > decode_state(path.read_bytes()).next:
            problem = "it is older than the files of the archive"
        if problem is not None:
            what = "its rows remain; lines that are still in the logs are archived again in a new archive"
            yield Finding(path, 0, problem, "does not start", aside(path.parent, what))


def _older_places(root: Path) -> Iterator[Finding]:
    for path in sorted(root.glob(f"spool/*/{PLACE}")):
        spool = path.with_name(SPOOL)
        if _problem(path, decode_place) is not None or not spool.exists():
            continue
        place, inode, size = decode_place(path.read_bytes()), spool.stat().st_ino, whole_lines_of(spool)
        if not place.fits(inode, size):
            what = (
                f"the spool ends at byte {size}, not at {place.begin} to {place.stop}: it is older or newer"
            )
            yield Finding(path, None, what, "reads messages twice or skips some, and reports this")


def _problem(path: Path, read: Callable[[bytes], object]) -> str | None:
    try:
        read(path.read_bytes())
    except (*UNREADABLE, ProtocolError) as error:
        return str(error)
    return None


def audit_log(root: Path) -> Iterator[Finding]:
    path, head = root / audit_chain.NAME, root / audit_chain.HEAD
    if not path.exists() and not head.exists():
        return
    storage = MemoryStorage()
    for each in (head, *(audit_chain.files_of(root) if path.exists() else ())):
        if each.exists():
            storage.write(each.name, each.read_bytes())
    try:
        audit.AuditLog(storage, lambda: 0).close()
    except StorageError as error:
        if error.where == audit_chain.HEAD:
            yield Finding(
                head,
                0,
                error.message,
                "does not start",
                aside(head, "the end of the log is not verified once"),
            )
        else:
            what = "a new log starts; the old one is kept as evidence"
            yield Finding(path, 0, error.message, "does not start", aside_with(path, (head,), what))
        return
    files = [(each, storage.read(each.name) or b"") for each in audit_chain.files_of(root)]
    try:
        audit_chain.check_chain(files)
    except DataError as error:
        file, _, number = error.where.rpartition(":")
        what = f"line {number} {error.message}"
        yield Finding(
            Path(file), None, what, "continues after the last line; `elf audit verify` reports the damage"
        )
