"""A disk that loses what was not synced: files, names, and what a power cut leaves of them.

Owns no system call; see `disk.py`.

Rules, as strict as POSIX allows: bytes survive a power cut once their file was synced, of the others any
beginning does, perhaps followed by zeros; a name that was made, replaced or removed survives once its
directory was synced, of the others any beginning of their order does, and the names in a renamed directory
change all at once or not at all. A failed sync has lost what it should have written, even if a later one
succeeds.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


def refused(number: int, path: str = "") -> OSError:
    return OSError(number, os.strerror(number), path)


@dataclass(slots=True)
class Inode:
    """One file: what programs see, and what is on the platter. `clean` bytes of both are the same."""

    number: int
    data: bytearray = field(default_factory=bytearray)
    stable: bytearray = field(default_factory=bytearray)
    clean: int = 0
    mtime_ns: int = 0

    def sync(self) -> None:
        del self.stable[self.clean :]
        self.stable += self.data[self.clean :]
        self.clean = len(self.data)

    def touch(self, offset: int) -> None:
        """Bytes from `offset` on have changed."""
        self.clean = min(self.clean, offset)

    def power_cut(self, rng: random.Random) -> None:
        """Keep what was synced and a random beginning of the rest, perhaps zeros behind it."""
        del self.stable[self.clean :]
        dirty = self.data[self.clean :]
        kept = rng.choice((0, len(dirty), rng.randint(0, len(dirty))))
        self.stable += dirty[:kept]
        if kept < len(dirty) and rng.random() < 0.3:
            self.stable += bytes(rng.randint(0, len(dirty) - kept))
        self.data = bytearray(self.stable)
        self.clean = len(self.data)


@dataclass(frozen=True, slots=True)
class _Renaming:
    """A change of names that may be lost: `path` leads to `inode` from now on, to nothing if None."""

    path: str
    inode: Inode | None


class Disk:
    """The file system of one host.

    Attributes:
        space: bytes that may still be written, None for as many as one likes.
        syncs_to_fail: how many syncs from now on fail.
        lies: syncs return at once and do nothing: for the ablation of syncing, never for a fault.
    """

    def __init__(self, rng: random.Random, now_ns: Callable[[], int] = lambda: 0) -> None:
        self.rng, self.now_ns = rng, now_ns
        self.names: dict[str, Inode] = {}
        self.directories: dict[str, int] = {}
        """Each with when a name in it last changed, in nanoseconds."""
        self.space: int | None = None
        self.syncs_to_fail = 0
        self.lies = False
        self.counts = {"syncs": 0, "lost_bytes": 0, "power_cuts": 0, "flips": 0}
        self._stable_names: dict[str, Inode] = {}
        self._pending: list[tuple[_Renaming, ...]] = []

    def link(self, path: str, inode: Inode | None) -> None:
        """Let a name lead to a file, or to nothing."""
        self._change((_Renaming(path, inode),))

    def rename(self, path: str, to: str) -> None:
        """Give a file, or a directory with all that is below it, another name."""
        if path not in self.directories:
            self.link(to, self.names[path])
            self.link(path, None)
            return
        for directory in [each for each in self.directories if f"{each}/".startswith(f"{path}/")]:
            self.directories[to + directory[len(path) :]] = self.directories.pop(directory)
        self.changed(path)
        self.changed(to)
        names = [*self.below(path)]
        made = [_Renaming(to + name[len(path) :], self.names[name]) for name in names]
        self._change((*made, *(_Renaming(name, None) for name in names)))

    def _change(self, changes: tuple[_Renaming, ...]) -> None:
        for change in changes:
            if change.inode is None:
                del self.names[change.path]
            else:
                self.names[change.path] = change.inode
            self.changed(change.path)
        self._pending.append(changes)

    def changed(self, path: str) -> None:
        """A name has changed: its directory shows it, however soon after the last change."""
        directory = path.rpartition("/")[0]
        if directory in self.directories:
            self.directories[directory] = max(self.now_ns(), self.directories[directory] + 1)

    def sync_names(self) -> None:
        """What a sync of a directory does: a journal commits everything before it."""
        if self.lies:
            return
        self._fail_perhaps()
        for changes in self._pending:
            self._settle(changes)
        self._pending.clear()

    def sync(self, inode: Inode) -> None:
        self.counts["syncs"] += 1
        if self.lies:
            return
        try:
            self._fail_perhaps()
        except OSError:
            inode.stable[inode.clean :] = bytes(len(inode.data) - inode.clean)
            inode.clean = len(inode.data)  # the kernel takes the pages for clean and never writes them
            raise
        inode.sync()

    def _fail_perhaps(self) -> None:
        if self.syncs_to_fail:
            self.syncs_to_fail -= 1
            raise refused(errno.EIO)

    def _settle(self, changes: tuple[_Renaming, ...]) -> None:
        for change in changes:
            if change.inode is None:
                self._stable_names.pop(change.path, None)
            else:
                self._stable_names[change.path] = change.inode

    def power_cut(self, spare: str = "") -> None:
        """What is left when the power fails; names below `spare` lose nothing."""
        self.counts["power_cuts"] += 1
        cut = self.rng.choice((0, len(self._pending), self.rng.randint(0, len(self._pending))))
        for at, changes in enumerate(self._pending):
            if at < cut or (spare and changes[0].path.startswith(spare)):
                self._settle(changes)
        self._pending.clear()
        self.names = dict(self._stable_names)
        for path in self.names:
            self.directories.setdefault(path.rpartition("/")[0], self.now_ns())
        for path, inode in self.names.items():
            if spare and path.startswith(spare):
                inode.sync()
            else:
                before = len(inode.data)
                inode.power_cut(self.rng)
                self.counts["lost_bytes"] += max(0, before - len(inode.data))

    def wipe(self, below: str) -> None:
        """A new disk: nothing is left of what is below a directory."""
        for names in (self.names, self._stable_names):
            for path in [path for path in names if path.startswith(below)]:
                del names[path]
        self._pending = [changes for changes in self._pending if not changes[0].path.startswith(below)]

    def flip(self, path: str, at: int) -> None:
        """One bit of a file changes by itself."""
        self.counts["flips"] += 1
        for content in (self.names[path].data, self.names[path].stable):
            if at // 8 < len(content):
                content[at // 8] ^= 1 << at % 8

    def put(self, path: str, content: bytes) -> None:
        """A file is what it was at another time."""
        inode = self.names[path]
        inode.data, inode.stable, inode.clean = bytearray(content), bytearray(content), len(content)

    def below(self, path: str) -> Iterator[str]:
        """Names of files below a directory."""
        prefix = path.rstrip("/") + "/"
        return iter([name for name in self.names if name.startswith(prefix)])
