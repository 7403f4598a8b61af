"""The calls of `os` that the agent's code makes on a disk that loses what was not synced.

Owns open files. The product's own storage, sources and results log run unchanged on top (see `install.py`):
nothing of them is written a second time here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

from tests.sim.swarm.platter import Disk, Inode, refused


@dataclass(slots=True)
class Handle:
    """An open file, or an open directory (no inode)."""

    disk: Disk
    path: str
    inode: Inode | None
    writable: bool = False


class SimOS:
    """The part of module `os` that the agent uses, for all hosts: the first part of a path names the host."""

    O_RDONLY, O_RDWR, O_CREAT = os.O_RDONLY, os.O_RDWR, os.O_CREAT
    O_APPEND, O_CLOEXEC, O_NONBLOCK = os.O_APPEND, os.O_CLOEXEC, os.O_NONBLOCK
    O_NOFOLLOW, O_TRUNC, O_WRONLY = os.O_NOFOLLOW, os.O_TRUNC, os.O_WRONLY
    SEEK_SET, SEEK_END = os.SEEK_SET, os.SEEK_END
    path = SimpleNamespace(
        realpath=str,
        islink=lambda path: False,
        dirname=posixpath.dirname,
        join=posixpath.join,
        split=posixpath.split,
        basename=posixpath.basename,
    )
    geteuid = staticmethod(lambda: 0)
    strerror, fsencode = staticmethod(os.strerror), staticmethod(os.fsencode)

    def __init__(self) -> None:
        self.disks: dict[str, Disk] = {}
        self.now_ns: Callable[[], int] = lambda: 0
        self.on_open: Callable[[str, int], None] = lambda path, inode: None
        self.file_of: Callable[[SimOS, int, int], Any] = lambda system, fd, at: None
        self._handles: dict[int, Handle] = {}
        self._hung_up: set[int] = set()
        self._next_fd = 1000
        self._next_inode = 1

    def disk(self, path: str) -> Disk:
        return self.disks[path.split("/", 2)[1]]

    def handles(self, host: str) -> int:
        """How many files of a host are open."""
        disk = self.disks[host]
        return sum(handle.disk is disk for handle in self._handles.values())

    def hang_up(self, host: str) -> None:
        """The host's process is gone: its files are closed, whatever its objects close later."""
        disk = self.disks[host]
        for fd in [fd for fd, handle in self._handles.items() if handle.disk is disk]:
            del self._handles[fd]
            self._hung_up.add(fd)

    def create(self, path: str) -> Inode:
        inode = Inode(self._next_inode, mtime_ns=self.now_ns())
        self._next_inode += 1
        self.disk(path).link(path, inode)
        return inode

    def open(self, path: Any, flags: int, mode: int = 0o600) -> int:
        name = str(path)
        disk = self.disk(name)
        inode = disk.names.get(name)
        if inode is None and name not in disk.directories:
            if not flags & os.O_CREAT:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
            inode = self.create(name)
        if inode is not None:
            self.on_open(name, inode.number)
            if flags & os.O_TRUNC:
                del inode.data[:]
                inode.touch(0)
        self._next_fd += 1
        writable = bool(flags & (os.O_RDWR | os.O_WRONLY))
        self._handles[self._next_fd] = Handle(disk, name, inode, writable)
        return self._next_fd

    def readlink(self, path: str) -> str:
        """What an open file is called now, by its name in /proc/self/fd."""
        handle = self._handles[int(path.rpartition("/")[2])]
        names = [name for name, inode in handle.disk.names.items() if inode is handle.inode]
        return names[0] if names else f"{handle.path} (deleted)"

    def fdopen(self, fd: int, mode: str) -> Any:
        """An open file as an object; see `install`."""
        return self.file_of(self, fd, 0)

    def _file(self, fd: int) -> tuple[Disk, Inode]:
        handle = self._handles.get(fd)
        if handle is None or handle.inode is None:
            raise refused(errno.EBADF)
        return handle.disk, handle.inode

    def close(self, fd: int) -> None:
        if self._handles.pop(fd, None) is None:
            if fd not in self._hung_up:
                raise refused(errno.EBADF)
            self._hung_up.remove(fd)  # by a finalizer, which the real process would not have run

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        _, inode = self._file(fd)
        return bytes(inode.data[offset : offset + size])

    def write(self, fd: int, data: bytes | memoryview) -> int:
        """Append; a full disk takes what fits first."""
        disk, inode = self._file(fd)
        room = len(data) if disk.space is None else min(len(data), disk.space)
        if room < len(data) and room == 0:
            raise refused(errno.ENOSPC)
        if disk.space is not None:
            disk.space -= room
        inode.data += data[:room]
        inode.mtime_ns = self.now_ns()
        return room

    def ftruncate(self, fd: int, size: int) -> None:
        _, inode = self._file(fd)
        del inode.data[size:]
        inode.data += bytes(size - len(inode.data))
        inode.touch(size)

    def fsync(self, fd: int) -> None:
        handle = self._handles.get(fd)
        if handle is None:
            raise refused(errno.EBADF)
        if handle.inode is None:
            handle.disk.sync_names()
        else:
            handle.disk.sync(handle.inode)

    fdatasync = fsync

    def fstat(self, fd: int) -> Status:
        return status(self._file(fd)[1])

    def stat(self, path: Any) -> Status:
        name = str(path)
        disk = self.disk(name)
        if name in disk.names:
            return status(disk.names[name])
        if name in disk.directories:
            at = disk.directories[name]
            return _status(stat.S_IFDIR | 0o700, 0, 0, at)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)

    def replace(self, source: Any, target: Any) -> None:
        name = str(source)
        disk = self.disk(name)
        if name not in disk.names and name not in disk.directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        disk.rename(name, str(target))

    def unlink(self, path: Any) -> None:
        name = str(path)
        disk = self.disk(name)
        if name not in disk.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        disk.link(name, None)

    def mkdir(self, path: Any) -> None:
        self.disk(str(path)).directories.setdefault(str(path), self.now_ns())

    def listing(self, path: Any) -> list[str]:
        """Names of the entries of a directory, sorted, directories among them."""
        name = str(path).rstrip("/")
        disk = self.disk(name)
        if name not in disk.directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        prefix = name + "/"
        found = [entry for entry in (*disk.names, *disk.directories) if entry.startswith(prefix)]
        return sorted({entry[len(prefix) :].split("/", 1)[0] for entry in found})

    def scandir(self, path: Any) -> contextlib.nullcontext[Iterator[SimEntry]]:
        entries = []
        for name in self.listing(path):
            found = self.stat(f"{path}/{name}")
            entries.append(SimEntry(f"{path}/{name}", name, found))
        return contextlib.nullcontext(iter(entries))


class Status(NamedTuple):
    """The part of `os.stat_result` that the agent looks at."""

    st_mode: int
    st_dev: int
    st_ino: int
    st_nlink: int
    st_size: int
    st_mtime: float
    st_mtime_ns: int
    st_uid: int = 0


class SimEntry(NamedTuple):
    """The part of `os.DirEntry` that the agent looks at."""

    path: str
    name: str
    status: Status

    def inode(self) -> int:
        return self.status.st_ino

    def stat(self, *, follow_symlinks: bool = True) -> Status:
        return self.status

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return stat.S_ISREG(self.status.st_mode)

    def is_symlink(self) -> bool:
        return False


def status(inode: Inode) -> Status:
    return _status(stat.S_IFREG | 0o600, inode.number, len(inode.data), inode.mtime_ns)


def _status(mode: int, number: int, size: int, at_ns: int) -> Status:
    return Status(mode, 1, number, 1, size, at_ns / 1e9, at_ns)
