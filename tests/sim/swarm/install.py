"""Puts the simulated `os`, `Path`, `glob`, `shutil` and `fcntl` under every module of the product.

A call that the simulation does not know fails with an AttributeError: nothing reaches the real disk by
accident, and nothing is silently not simulated.
"""

from __future__ import annotations

import contextlib
import fcntl
import fnmatch
import glob
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from types import ModuleType, SimpleNamespace, TracebackType
from typing import Any

from elfmesh.ingest import read_loop, workers
from elfmesh.ingest.sources import tail
from tests.sim.swarm.disk import SimOS, Status

NOT_FILES = (
    "elfmesh.ingest.host",
    "elfmesh.storage.failpoints",
    "elfmesh.ingest.functions.seccomp",
    "elfmesh.api.identity.bearer",
)
"""Modules that ask `os` for something else: how many processors there are, to end a process, the machine's
name, the environment of clients, of which a thread of another test may still be one."""

REPLACED = ("os", "Path", "glob", "shutil", "fcntl")


def _modules() -> list[ModuleType]:
    """All of the product that is loaded and may touch files: none can be forgotten."""
    found = [(name, module) for name, module in sys.modules.items() if name.startswith("elfmesh.")]
    return [module for name, module in sorted(found) if name not in NOT_FILES]


class SimFile:
    """What `Path.open` returns: unbuffered, at a place of its own."""

    def __init__(self, system: SimOS, fd: int, at: int) -> None:
        self._system, self._fd, self._at = system, fd, at

    def write(self, data: bytes) -> int:
        view = memoryview(data)
        while view:
            view = view[self._system.write(self._fd, view) :]
        return len(data)

    def read(self, size: int = -1) -> bytes:
        size = self._system.fstat(self._fd).st_size - self._at if size < 0 else size
        data = self._system.pread(self._fd, size, self._at)
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + (self._system.fstat(self._fd).st_size if whence == os.SEEK_END else 0)
        return self._at

    def truncate(self, size: int) -> None:
        self._system.ftruncate(self._fd, size)

    def flush(self) -> None:
        pass

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        self._system.close(self._fd)

    def __enter__(self) -> SimFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()


class SimPath(PurePosixPath):
    """The part of `Path` that the agent uses. `system` is set while it is installed."""

    system: SimOS

    def stat(self) -> Status:
        return self.system.stat(self)

    def exists(self) -> bool:
        try:
            self.system.stat(self)
        except FileNotFoundError:
            return False
        return True

    def is_file(self) -> bool:
        return self.exists() and stat.S_ISREG(self.stat().st_mode)

    def is_symlink(self) -> bool:
        return False

    def is_fifo(self) -> bool:
        return False

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        for directory in (*reversed(self.parents), self):
            if len(directory.parts) > 1:
                self.system.mkdir(directory)

    def open(self, mode: str) -> SimFile:
        flags = self.system.O_RDONLY if mode == "rb" else self.system.O_RDWR
        if mode in ("ab", "wb"):
            flags |= self.system.O_CREAT
        fd = self.system.open(self, flags)
        if mode == "wb":
            self.system.ftruncate(fd, 0)
        return SimFile(self.system, fd, 0)

    def read_bytes(self) -> bytes:
        with self.open("rb") as file:
            return file.read()

    def unlink(self, missing_ok: bool = False) -> None:
        try:
            self.system.unlink(self)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def replace(self, target: Any) -> None:
        self.system.replace(self, target)

    def iterdir(self) -> Iterator[SimPath]:
        return iter([self / name for name in self.system.listing(self)])

    def glob(self, pattern: str) -> Iterator[SimPath]:
        return iter([path for path in self.iterdir() if fnmatch.fnmatch(path.name, pattern)])

    def rglob(self, pattern: str) -> Iterator[SimPath]:
        found = [type(self)(name) for name in self.system.disk(str(self)).below(str(self))]
        return iter([path for path in found if fnmatch.fnmatch(path.name, pattern)])


def _glob(system: SimOS) -> SimpleNamespace:
    def found(pattern: str, recursive: bool = False) -> list[str]:
        names = system.disk(pattern).names
        if not glob.has_magic(pattern):
            return [pattern] if pattern in names else []
        return [name for name in names if fnmatch.fnmatchcase(name, pattern)]

    return SimpleNamespace(glob=found, has_magic=glob.has_magic)


def _shutil(system: SimOS) -> SimpleNamespace:
    def rmtree(path: Any) -> None:
        disk = system.disk(str(path))
        if str(path) not in disk.directories:
            raise FileNotFoundError(str(path))
        for name in disk.below(str(path)):
            disk.link(name, None)
        del disk.directories[str(path)]

    return SimpleNamespace(rmtree=rmtree)


def _fcntl() -> SimpleNamespace:
    return SimpleNamespace(flock=lambda fd, how: None, LOCK_EX=2, LOCK_NB=4)


def _no_open(path: Any, *_: Any, **__: Any) -> Any:
    """Python's own `open` would reach the real disk."""
    raise AttributeError(f"to open {path} by Python's own `open` is not simulated")


@contextlib.contextmanager
def installed(
    system: SimOS, poll_s: float = read_loop.POLL_MAX_S, read_bytes: int | None = None
) -> Iterator[type[SimPath]]:
    """Run the product on a simulated system; gives the class of its paths.

    Args:
        system: all hosts' files.
        poll_s: how often a silent stream is looked at, at most: most of what a simulated second costs.
        read_bytes: how much of a stream is read at once; None: what the product reads.
    """
    system.file_of = SimFile
    path_class = type("SimPath", (SimPath,), {"system": system})
    facade: dict[str, Any] = {
        "os": system,
        "Path": path_class,
        "glob": _glob(system),
        "shutil": _shutil(system),
        "fcntl": _fcntl(),
    }
    pace = read_loop.POLL_MIN_S, read_loop.POLL_MAX_S
    sizes = [(workers, "POLL_BYTES"), (tail, "READ_MIN")] if read_bytes is not None else []
    before = [
        (module, name, getattr(module, name))
        for module in _modules()
        for name in REPLACED
        if getattr(module, name, None) in (os, Path, glob, shutil, fcntl)
    ]
    before += [(module, name, getattr(module, name)) for module, name in sizes]
    without = [module for module in _modules() if "open" not in vars(module)]  # they have Python's own
    facade |= {name: read_bytes for _, name in sizes}
    try:
        for module, name, _ in before:
            setattr(module, name, facade[name])
        for module in without:
            vars(module)["open"] = _no_open
        read_loop.POLL_MIN_S, read_loop.POLL_MAX_S = poll_s / 4, poll_s
        yield path_class
    finally:
        read_loop.POLL_MIN_S, read_loop.POLL_MAX_S = pace
        for module in without:
            vars(module).pop("open", None)
        for module, name, original in before:
            setattr(module, name, original)
