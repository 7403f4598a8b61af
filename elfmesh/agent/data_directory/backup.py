"""Backs up the parts of a data directory that another agent can use; the agent may be running.

  FILE = zstd(tar): elf-backup.json (`BackupHeader`) | files, names relative to the directory | sums.json

The backup does not contain what would take the fleet back in time (votes, terms, contributions, the id); the
head counts these. Each file in the backup is a complete file of the directory, or a prefix of it that ends
with a complete record. Files that depend on each other are read in an order that yields a possible state of
the agent. A damaged file of the directory makes the backup fail. The target file appears complete or not at
all. See ADR 0026.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

import msgspec
import zstandard

from elfmesh.control.jobs.pages import frames
from elfmesh.control.jobs.row_pages import table_of
from elfmesh.errors import DataError, ProtocolError, StorageError
from elfmesh.ingest.authority.audit_chain import HEAD as AUDIT_HEAD
from elfmesh.ingest.authority.audit_chain import NAME as AUDIT_LOG
from elfmesh.ingest.authority.signatures import FILE as SERIALS
from elfmesh.storage import framescan
from elfmesh.storage.deadletters import DIRECTORY as LETTERS
from elfmesh.storage.durable import RECORD
from elfmesh.storage.framelog import FILE_NAME as FRAMES
from elfmesh.storage.frames import Forgotten, Frame, Released, Sealed
from elfmesh.storage.identity import IDENTITY_FILE, RESTORED_FILE, identity_of, restored_from
from elfmesh.storage.results.journal import FILE_NAME as JOURNAL
from elfmesh.storage.results.page_files import NAME as PAGES
from elfmesh.storage.results.segment import private_file
from elfmesh.storage.statelog import NAME as STATE
from elfmesh.storage.statelog import Change
from elfmesh.storage.storage import MemoryFile
from elfmesh.version import VERSION
from elfmesh.wire import UNREADABLE

FORMAT = 1
HEAD_NAME, SUMS_NAME = "elf-backup.json", "sums.json"
RESULTS, SINKS = "results", "sinks"
KEPT = ("epoch", "stopped", RECORD)
"""State entries that remain correct if they are old: the highest epochs seen, the jobs that have ended, and
records that may not yet be durable in a log. They are read before the logs. A log that is read later contains
all of these records, except for what a power failure removed."""

LEVEL = 3
LOOKS_MAX = 100
"""How often changing files are read again before the backup gives up."""

_CHANGES = msgspec.msgpack.Decoder(list[Change])
_FRAME = msgspec.msgpack.Decoder(Frame)
_PACK = msgspec.msgpack.Encoder()


class BackupHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Description of a backup.

    Attributes:
        format: version of the archive format.
        elf: release that wrote it.
        agent: id of the agent in hexadecimal.
        earlier: ids of the agents from whose backups the directory was restored.
        made_us: time of creation in microseconds.
        votes: number of registers in which the agent had voted; the votes are not in the archive.
        contributions: number of sealed and not closed intervals; they are not in the archive.
        left_out: bytes of other files that are not in the archive, by the first part of their path.
    """

    format: int
    elf: str
    agent: str
    earlier: tuple[str, ...] = ()
    made_us: int
    votes: int
    contributions: int
    left_out: dict[str, int]


Files = list[tuple[str, bytes]]


class ReadOnlyFile(MemoryFile):
    """A file as `framescan` reads it, up to its size at opening."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("rb")
        self._end = os.fstat(self._file.fileno()).st_size

    def read(self, offset: int = 0, size: int = -1) -> bytes:
        return os.pread(self._file.fileno(), self._end - offset if size < 0 else size, offset)

    def size(self) -> int:
        return self._end

    def close(self) -> None:
        self._file.close()


def backup(directory: Path, target: Path, wall_us: int) -> tuple[BackupHeader, int]:
    """Write the backup of a data directory durably with mode 0600.

    Returns the head and the number of files. Cost: memory for the results of one job at a time.

    Raises:
        DataError: this is not a data directory, a file in it is damaged, or `target` is inside it.
        StorageError: a file cannot be read or written.
    """
    if target.resolve().is_relative_to(directory.resolve()):
        raise DataError(
            "is inside the directory that is backed up", where=str(target), hint="Write elsewhere."
        )
    try:
        agent = identity_of((directory / IDENTITY_FILE).read_bytes())
        restored = directory / RESTORED_FILE
        earlier = restored_from(restored.read_bytes() if restored.exists() else None)
    except FileNotFoundError:
        raise DataError(
            "is not the data directory of an agent because it contains no id",
            where=str(directory),
            hint="Name the data_dir of an agent's configuration.",
        ) from None
    except OSError as error:
        raise StorageError(f"cannot read it: {error.strerror}", where=str(directory)) from None
    try:
        with private_file(target) as file:
            head, count = _write(directory, (agent.hex(), *earlier), wall_us, file)
    except OSError as error:
        where = str(error.filename or target)
        raise StorageError(f"cannot copy it: {error.strerror}", where=where) from None
    return head, count


def _write(
    directory: Path, agents: tuple[str, ...], wall_us: int, file: BinaryIO
) -> tuple[BackupHeader, int]:
    kept, votes = _remembered(directory / STATE)
    head = BackupHeader(
        format=FORMAT,
        elf=VERSION,
        agent=agents[0],
        earlier=agents[1:],
        made_us=wall_us,
        votes=votes,
        contributions=_contributions(directory / FRAMES),
        left_out=_left_out(directory),
    )
    sums: dict[str, str] = {}
    # The stream has its own checksum, because damage may change a name and its copy in the sums
    # alike.
    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
    with (
        compressor.stream_writer(file, closefd=False) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):

        def add(name: str, data: bytes) -> None:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(data), 0o600, wall_us // 1_000_000
            archive.addfile(entry, io.BytesIO(data))
            sums[name] = hashlib.sha256(data).hexdigest()

        add(HEAD_NAME, msgspec.json.encode(head))
        if kept:
            add(STATE, framescan.pack(_PACK.encode(kept)))
        for name, data in _files(directory):
            add(name, data)
        count = len(sums) - 1
        add(SUMS_NAME, msgspec.json.encode(sums))
    return head, count


def _files(directory: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files that are copied. A file that must not be older than another one is read after it."""
    with contextlib.suppress(FileNotFoundError):
        yield SERIALS, (directory / SERIALS).read_bytes()
    yield from _stable(partial(_audit_names, directory), partial(_audit, directory))
    # exists only if an earlier release was the last one to run here
    with contextlib.suppress(FileNotFoundError):
        yield f"{RESULTS}/{JOURNAL}", (directory / RESULTS / JOURNAL).read_bytes()
    for log in sorted((directory / RESULTS).glob("*/")):
        yield from _stable(partial(_log_names, log), partial(_log, log))
    for root in (LETTERS, SINKS):
        for path in sorted((directory / root).rglob("*")):
            if path.is_file() and not path.is_symlink() and path.suffix != ".new":
                # the agent deletes the oldest dead letters meanwhile
                with contextlib.suppress(FileNotFoundError):
                    yield str(path.relative_to(directory)), path.read_bytes()


def _stable(names: Callable[[], object], read: Callable[[], Files]) -> Files:
    for _ in range(LOOKS_MAX):
        before = names()
        try:
            found = read()
        except FileNotFoundError:
            continue
        if names() == before:
            return found
    raise StorageError("files in the directory change too fast to be copied", hint="Try again.")


def _audit_names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob(f"{AUDIT_LOG}.*") if path.suffix[1:].isdecimal())


def _audit(directory: Path) -> Files:
    names = [AUDIT_HEAD, AUDIT_LOG, *_audit_names(directory)]
    return [(name, (directory / name).read_bytes()) for name in names if (directory / name).exists()]


def _log_names(log: Path) -> tuple[bytes, list[str]]:
    meta = log / "meta"
    return meta.read_bytes() if meta.exists() else b"", sorted(path.name for path in log.glob("*.seg"))


def _log(log: Path) -> Files:
    root = log.parent.parent
    paths = sorted(log.glob("*.seg"), key=lambda path: int(path.stem))
    needed: set[str] = set()
    found = [(log / "meta", (log / "meta").read_bytes())] if (log / "meta").exists() else []
    for path in paths:
        data, end = path.read_bytes(), 0
        try:
            for _, rows, behind in frames(data):
                end = behind
                table = table_of(rows)
                needed |= set() if table is None else {page.digest.hex() for page in table.all}
        except ProtocolError as error:
            if path != paths[-1]:
                raise DataError(f"the results log is damaged: {error}", where=str(path)) from None
        if end:
            found.append((path, data[:end]))
    pages = (path for path in sorted((log / PAGES).glob("*.page")) if path.stem.rpartition("-")[2] in needed)
    found += [(path, path.read_bytes()) for path in pages]
    return [(str(path.relative_to(root)), data) for path, data in found]


def _remembered(path: Path) -> tuple[list[Change], int]:
    live: dict[tuple[str, bytes], bytes] = {}
    file = MemoryFile()
    with contextlib.suppress(FileNotFoundError):
        file.append(path.read_bytes())
    damaged = False
    for found in framescan.scan(file, file.size()):
        if found.body is None:
            damaged = True
            continue
        try:
            changes = _CHANGES.decode(found.body)
        except UNREADABLE:
            damaged = True
        if damaged:
            raise DataError(f"is damaged before byte {found.offset + found.size}", where=str(path))
        for kind, key, data in changes:
            live[kind, key] = data
    kept = [(kind, key, data) for (kind, key), data in sorted(live.items()) if data and kind in KEPT]
    return kept, sum(kind == "vote" and bool(data) for (kind, _), data in live.items())


def _contributions(path: Path) -> int:
    """Return the number of intervals that are sealed and not closed. Cost: reads the frame log once."""
    if not path.exists():
        return 0
    sealed: Counter[tuple[str, int]] = Counter()
    released: dict[str, int] = {}
    file = ReadOnlyFile(path)
    with contextlib.closing(file):
        for found in framescan.scan(file, file.size()):
            with contextlib.suppress(*UNREADABLE):
                match None if found.body is None else _FRAME.decode(found.body):
                    case Sealed() as frame:
                        sealed.update((frame.job, entry.interval) for entry in frame.entries)
                    case Released(job, stop):
                        released[job] = max(stop, released.get(job, stop))
                    case Forgotten(job):
                        sealed = Counter({each: 1 for each in sealed if each[0] != job})
                        released.pop(job, None)
    return sum(job not in released or interval >= released[job] for job, interval in sealed)


def _left_out(directory: Path) -> dict[str, int]:
    copied = {RESULTS, LETTERS, SINKS, SERIALS, AUDIT_HEAD, STATE, *[AUDIT_LOG, *_audit_names(directory)]}
    sizes: Counter[str] = Counter()
    for path in directory.rglob("*"):
        first = path.relative_to(directory).parts[0]
        with contextlib.suppress(FileNotFoundError):
            if first not in copied and path.is_file() and not path.is_symlink():
                sizes[first] += path.stat().st_size
    return {name: size for name, size in sorted(sizes.items()) if size}
