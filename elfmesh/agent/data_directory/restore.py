"""Creates the data directory of a new agent from a backup.

The directory records the id of the old agent, so that the new agent refuses its certificate: other agents
count the current votes and contributions of the old agent, and a copy contains old ones. Whatever the archive
contains, the module writes no file outside the directory and creates no link or device. The directory appears
complete, checked and durable, or not at all. See ADR 0026.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import tarfile
from pathlib import Path

import msgspec
import zstandard

from elfmesh.agent.data_directory.backup import FORMAT, HEAD_NAME, SUMS_NAME, BackupHeader
from elfmesh.errors import DataError, DiskFull, StorageError
from elfmesh.storage.identity import RESTORED_FILE, RestoredFrom
from elfmesh.storage.results.segment import sync_directory
from elfmesh.text import printable

_PART = r"[A-Za-z0-9_+=-][A-Za-z0-9_.+=-]{0,254}"
_NAME = re.compile(
    rf"state\.log|functions|audit\.head|audit\.log(\.\d{{1,9}})?|results/journal"
    rf"|results/[0-9a-f]{{40}}/(meta|[+-]\d{{1,20}}\.seg|pages/[+-]\d{{1,20}}-[0-9a-f]{{32}}\.page)"
    rf"|(dead-letter|sinks)(/{_PART}){{1,6}}"
)
"""Names of files that may come from a backup: relative, without `..`, and without the id."""

FILE_BYTES_MAX = 1 << 30
"""Maximum size of a file. The largest files of a backup are journals and segments of some MiB."""

SMALL_BYTES_MAX = 256 << 20
"""Maximum size of the head and of the checksums."""

FILES_MAX = 2_000_000

GROWTH_MAX = 200
"""Maximum decompressed bytes per byte of the backup. Real backups grow by a factor of three to twenty."""

GROWTH_FREE_BYTES = 16 << 20
"""Decompressed size that is allowed in any case."""

BLOCK_BYTES = 4096
"""Overhead of a file on disk."""

WINDOW_BYTES_MAX = 1 << 27


def restore(source: Path, directory: Path) -> tuple[BackupHeader, int]:
    """Create a data directory from a backup. The directory must be empty or missing.

    Returns the backup's head and the number of files.

    Raises:
        DataError: the file is not a complete backup, contains other files, or the directory is in use. The
            directory is not created then.
    """
    if directory.is_symlink() or (
        directory.exists() and (not directory.is_dir() or any(directory.iterdir()))
    ):
        raise DataError(
            "is not empty, and restore does not overwrite files of an agent",
            where=str(directory),
            hint="Name another directory, or move this one away.",
        )
    beside = directory.with_name(f"{directory.name}.{os.getpid()}.restoring")
    try:
        directory.absolute().parent.mkdir(parents=True, exist_ok=True)
        beside.mkdir(mode=0o700)
        try:
            head, names = _unpack(source, beside)
            _put(
                beside / RESTORED_FILE,
                msgspec.json.encode(RestoredFrom((head.agent, *head.earlier), head.made_us)),
            )
            for root, _, _ in os.walk(beside):
                sync_directory(Path(root))
            beside.replace(directory)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
        sync_directory(directory.absolute().parent)
    except OSError as error:
        kind = DiskFull if error.errno in DiskFull.ERRNOS else StorageError
        raise kind(f"cannot restore: {error.strerror}", where=str(error.filename or directory)) from None
    return head, names


def _unpack(source: Path, root: Path) -> tuple[BackupHeader, int]:
    found: dict[str, str] = {}
    head: BackupHeader | None = None
    sums: dict[str, str] | None = None
    room = GROWTH_FREE_BYTES + GROWTH_MAX * source.stat().st_size
    try:
        with (
            source.open("rb") as file,
            zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX).stream_reader(file) as packed,
            tarfile.open(fileobj=_Bounded(packed, room, source), mode="r|") as archive,
        ):
            for entry in archive:
                room -= entry.size + BLOCK_BYTES
                if room < 0:
                    raise _too_big(source)
                data = _content(archive, entry, source, found)
                if sums is not None:
                    raise _damaged(source, "there is data after its checksums")
                found[entry.name] = hashlib.sha256(data).hexdigest()
                if head is None:
                    head = _head(entry.name, data, source)
                elif entry.name == SUMS_NAME:
                    sums = msgspec.json.decode(data, type=dict[str, str])
                else:
                    path = root / entry.name
                    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                    _put(path, data)
            # The second of the two blocks that end the archive may start a record of its own. The stream's
            # checksum is verified at its end.
            behind = packed.read(tarfile.RECORDSIZE)
            if any(behind) or packed.read(1):
                raise _damaged(source, "something follows it")
    except (tarfile.TarError, zstandard.ZstdError, msgspec.MsgspecError, EOFError, UnicodeError) as error:
        raise _damaged(source, printable(str(error))) from None
    if head is None or sums is None:
        raise _damaged(source, "it is truncated")
    found.pop(SUMS_NAME)
    wrong = sorted(name for name in found.keys() | sums.keys() if found.get(name) != sums.get(name))
    if wrong:
        raise _damaged(source, f"{printable(wrong[0])} differs from what was written")
    return head, len(found) - 1


class _Bounded(io.RawIOBase):
    """A stream of at most `room` bytes, because tarfile reads the long name of a file as a whole."""

    def __init__(self, stream: zstandard.ZstdDecompressionReader, room: int, source: Path) -> None:
        self._stream, self._room, self._source = stream, room, source

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self._room -= len(data)
        if self._room < 0:
            raise _too_big(self._source)
        return data


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo, source: Path, found: dict[str, str]) -> bytes:
    name = entry.name
    if not entry.isreg() or entry.issparse():
        raise _foreign(source, f"{printable(name)!r} is not a regular file")
    special = name in (HEAD_NAME, SUMS_NAME)
    if not special and not _NAME.fullmatch(name):
        raise _foreign(source, f"{printable(name)!r} is not a file that a backup contains")
    if name in found or (not found and name != HEAD_NAME) or len(found) >= FILES_MAX:
        raise _foreign(source, f"{printable(name)!r} is in the wrong place")
    if entry.size > (SMALL_BYTES_MAX if special else FILE_BYTES_MAX):
        raise _foreign(source, f"{printable(name)!r} has {entry.size} bytes")
    content = archive.extractfile(entry)
    assert content is not None
    data = content.read()
    if len(data) != entry.size:
        raise _damaged(source, "it is truncated")
    return data


def _head(name: str, data: bytes, source: Path) -> BackupHeader:
    reported = msgspec.json.decode(data)
    form = reported.get("format") if isinstance(reported, dict) else None
    if isinstance(form, int) and form > FORMAT:
        raise DataError(
            f"is a backup of format {form}; this release reads {FORMAT}",
            where=str(source),
            hint="Restore it with the release that wrote it, or a newer one.",
        )
    return msgspec.json.decode(data, type=BackupHeader)


def _put(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _damaged(source: Path, why: str) -> DataError:
    return DataError(f"is not a complete backup: {why}", where=str(source), hint="Nothing was restored.")


def _too_big(source: Path) -> DataError:
    return _foreign(source, f"its decompressed content is more than {GROWTH_MAX} times its size")


def _foreign(source: Path, why: str) -> DataError:
    return DataError(
        f"is not a backup of `elf backup`: {why}", where=str(source), hint="Nothing was restored."
    )
