"""The files of an agent: a real directory, or a dictionary in the simulation.

Data survives a crash when `sync` or `write` has returned. A failed sync or write raises `StorageError` and is
never retried, because the content of the disk is unknown after a failed fsync.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import weakref
from pathlib import Path
from typing import Protocol

from elfmesh.errors import ConfigError, DiskFull, StorageError
from elfmesh.safeguards import safeguard
from elfmesh.storage.failpoints import reach
from elfmesh.storage.results.segment import private, write_all
from elfmesh.storage.starving import content, opened


class AppendFile(Protocol):
    """An append-only file, opened with its existing content."""

    def read(self, offset: int = 0, size: int = -1) -> bytes:
        """Return `size` bytes from `offset`, or all following bytes if `size` is negative."""
        ...

    def size(self) -> int: ...

    def append(self, data: bytes) -> None:
        """Append bytes, which are durable after the next `sync`. After DiskFull the file is unchanged."""
        ...

    def cut(self, size: int) -> None: ...

    def sync(self) -> None:
        """Return when everything appended is durable."""
        ...

    def close(self) -> None: ...


class Storage(Protocol):
    """A flat set of named files."""

    def open(self, name: str) -> AppendFile: ...

    def read(self, name: str) -> bytes | None:
        """Return the whole content, or None if the file does not exist."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Replace the content atomically: after a crash the file has the old or the new content."""
        ...

    def delete(self, name: str) -> None: ...

    def names(self, prefix: str = "") -> list[str]:
        """Return the names that start with `prefix`, sorted."""
        ...

    def where(self, name: str) -> str: ...


class DiskFile:
    """`AppendFile` on a real file, which is closed by `close` or by the garbage collector."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._fd = private(path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise StorageError(f"cannot open it: {error.strerror}", where=str(path)) from None
        self._close = weakref.finalize(self, os.close, self._fd)

    def read(self, offset: int = 0, size: int = -1) -> bytes:
        left = os.fstat(self._fd).st_size - offset if size < 0 else size
        parts = []
        while left > 0 and (part := os.pread(self._fd, min(left, 1 << 24), offset)):
            parts.append(part)
            offset += len(part)
            left -= len(part)
        return b"".join(parts)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def append(self, data: bytes) -> None:
        before = self.size()
        try:
            reach("storage.append")
            write_all(self._fd, data)
        except OSError as error:
            self.cut(before)
            if error.errno in DiskFull.ERRNOS:
                raise DiskFull("the disk is full", where=str(self._path), hint="Make room there.") from None
            raise StorageError(f"cannot write: {error.strerror}", where=str(self._path)) from None

    @safeguard("torn-tail")
    def cut(self, size: int) -> None:
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            raise StorageError(f"cannot shorten it: {error.strerror}", where=str(self._path)) from None

    @safeguard("failed-sync")
    def sync(self) -> None:
        try:
            reach("storage.sync")
            os.fdatasync(self._fd)
        except OSError as error:
            raise StorageError(f"cannot sync: {error.strerror}", where=str(self._path)) from None

    def close(self) -> None:
        self._close()
        self._fd = -1


def check_private(root: Path) -> None:
    """Refuse a data directory in which another user may have created files, as sshd and PostgreSQL do."""
    try:
        found = root.stat()
        with os.scandir(root) as listed:
            entries = list(listed)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"cannot read it: {error.strerror}", where=f"data_dir {root}") from None
    trusted = {os.geteuid(), 0}
    links = set(trusted)  # owners whose links to directories are followed
    if os.geteuid() == 0:  # root may manage the directory of a service's user
        trusted.add(found.st_uid)
    if found.st_uid not in trusted:
        problem, hint = "another user owns it", f"Give it to the agent's user: chown -R {os.geteuid()} {root}"
    elif found.st_mode & 0o022:
        problem, hint = "other users may write into it", f"Revoke this permission: chmod go-w {root}"
    else:
        planted = next((each.name for each in entries if _is_planted(each, trusted, links)), None)
        if planted is None:
            return
        problem, hint = (
            f"{planted} in it belongs to another user, or a link",
            "Find out which user created it, and remove it.",
        )
    raise ConfigError(problem, where=f"data_dir {root}", hint=hint)


def _is_planted(entry: os.DirEntry[str], trusted: set[int], links: set[int]) -> bool:
    owner = entry.stat(follow_symlinks=False).st_uid
    if entry.is_symlink():
        return owner not in links or not entry.is_dir()
    return owner not in trusted


class DiskStorage:
    """`Storage` in a directory, which is locked against other processes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        try:
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = private(root / "lock", os.O_RDWR)
        except OSError as error:
            raise ConfigError(
                f"cannot use it: {error.strerror}",
                where=f"data_dir {root}",
                hint="Name a directory that the agent may write.",
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise ConfigError(
                "another agent is using it",
                where=f"data_dir {root}",
                hint="Give each agent its own --data-dir.",
            ) from None

    def _path(self, name: str) -> Path:
        """Return the path of a file. Refuses names that leave the directory; peers may choose names."""
        if not name or "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
            raise StorageError(f"{name!r} is not a valid file name in a data directory", where=str(self.root))
        return self.root / name

    def open(self, name: str) -> DiskFile:
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        return DiskFile(path)

    def read(self, name: str) -> bytes | None:
        try:
            return content(self._path(name))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot read it: {error.strerror}", where=str(self.root / name)) from None

    @safeguard("atomic-write")
    def write(self, name: str, data: bytes) -> None:
        """Write another file, sync it, rename it over the old one, and sync the directory."""
        path = self._path(name)
        beside = path.with_name(path.name + ".new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # opened before the name changes, because opening may fail
            directory = opened(path.parent, os.O_RDONLY)
            try:
                with os.fdopen(private(beside, os.O_WRONLY | os.O_TRUNC), "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                reach("storage.replace")
                beside.replace(path)
                reach("storage.replaced")
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            if error.errno in DiskFull.ERRNOS:
                with contextlib.suppress(OSError):
                    beside.unlink()
                raise DiskFull("the disk is full", where=str(path), hint="Make room there.") from None
            raise StorageError(f"cannot write it: {error.strerror}", where=str(path)) from None

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._path(name).unlink()

    def names(self, prefix: str = "") -> list[str]:
        found = (path for path in self.root.rglob("*") if path.is_file() and not path.name.endswith(".new"))
        return sorted(
            name for path in found if (name := path.relative_to(self.root).as_posix()).startswith(prefix)
        )

    def where(self, name: str) -> str:
        return str(self._path(name))

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


class MemoryFile:
    """`AppendFile` in memory, which tracks the content that would survive a crash."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = 0
        self.room: int | None = None
        self.fail_sync = False

    def read(self, offset: int = 0, size: int = -1) -> bytes:
        return bytes(self.data[offset:] if size < 0 else self.data[offset : offset + size])

    def size(self) -> int:
        return len(self.data)

    def append(self, data: bytes) -> None:
        if self.room is not None and len(self.data) + len(data) > self.room:
            raise DiskFull("the disk is full: injected fault")
        self.data += data

    def cut(self, size: int) -> None:
        del self.data[size:]
        self.durable = min(self.durable, size)

    def sync(self) -> None:
        if self.fail_sync:
            raise StorageError("cannot sync: injected fault")
        self.durable = len(self.data)

    def close(self) -> None: ...


class MemoryStorage:
    """`Storage` in memory for the simulator; `crash` removes what was not synced."""

    def __init__(self) -> None:
        self.files: dict[str, MemoryFile] = {}

    def open(self, name: str) -> MemoryFile:
        return self.files.setdefault(name, MemoryFile())

    def read(self, name: str) -> bytes | None:
        return bytes(self.files[name].data) if name in self.files else None

    def write(self, name: str, data: bytes) -> None:
        file = self.files[name] = MemoryFile()
        file.append(data)
        file.sync()

    def delete(self, name: str) -> None:
        self.files.pop(name, None)

    def names(self, prefix: str = "") -> list[str]:
        return sorted(name for name in self.files if name.startswith(prefix))

    def where(self, name: str) -> str:
        return name

    def crash(self) -> None:
        for file in self.files.values():
            file.cut(file.durable)
