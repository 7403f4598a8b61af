"""One limit on the memory of many trees, and the store that takes what does not fit.

When the trees together hold more than the limit, the coldest push their roots down, then hand their
compressed buffers to the store; they are read back when they are merged or flushed. A store that refuses
loses nothing: the data stay in memory, and `over` says that no more should come in.

Owns: who holds how much, and who gives up memory first.
Refuses to know: what trees are made of, files, threads.

Invariants:
    - `nbytes` is the sum of what the living trees last reported.
    - Memory is given up in the order of last use, so with one thread it is the same in every run.
    - What a store refused is still held by its tree.

Paper: ELF 2.2 ("can be externalized to SSD or disk").
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from elfmesh.errors import StorageError

RELIEVED_SHARE = 0.875
"""Of the limit, what is held after memory was given up: so that this is not done for every batch."""

ROOT_SHARE = 0.4
"""Of the limit, what the root of one tree may take: the rest holds far more keys compressed."""


class BlobStore(Protocol):
    """Bytes by number, on a disk or elsewhere."""

    def put(self, blob: bytes, /) -> int:
        """Keep bytes; their number.

        Raises:
            StorageError: they could not be written. Nothing is kept.
        """
        ...

    def get(self, number: int, /) -> bytes:
        """The bytes of a number that was not dropped.

        Raises:
            StorageError: they could not be read.
        """
        ...

    def drop(self, number: int, /) -> None:
        """Forget a number; its space may be used again. Does not fail."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes kept."""
        ...


class Lock(Protocol):
    """What `threading.Lock` gives."""

    def acquire(self, blocking: bool = True) -> bool:
        """Whether it is ours now."""
        ...

    def release(self) -> None:
        """Give it back."""
        ...

    def __enter__(self) -> bool:
        """Acquire."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release."""
        ...


class NoLock:
    """A lock where there is one thread. It can be taken once, as a real one."""

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken = False

    def acquire(self, blocking: bool = True) -> bool:
        """True unless it is taken. Nobody else could give it back, so to wait for it is a mistake."""
        if self._taken:
            if blocking:
                raise RuntimeError("a tree is used from within itself")
            return False
        self._taken = True
        return True

    def release(self) -> None:
        """Give it back."""
        self._taken = False

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


class Holder(Protocol):
    """A tree, as the budget sees it."""

    def release(self, bytes_wanted: int, *, root: bool, spill: bool) -> None:
        """Give up memory, if no other thread is using the tree, and report.

        Args:
            bytes_wanted: more than this need not be given.
            root: push the root down.
            spill: hand buffers to the store.

        Raises:
            StorageError: the store refused; nothing is lost.
        """
        ...


class Share:
    """What one tree reports to its budget; gone with the tree."""

    __slots__ = ("_budget", "_number", "nbytes")

    def __init__(self, budget: MemoryBudget, number: int) -> None:
        self._budget = budget
        self._number = number
        self.nbytes = 0

    def report(self, nbytes: int, *, used: bool) -> None:
        """Say what the tree holds now.

        Args:
            nbytes: all of it.
            used: whether that is because something came in.
        """
        self._budget.note(self._number, nbytes - self.nbytes, used=used)
        self.nbytes = nbytes

    def __del__(self) -> None:
        self._budget.leave(self._number, self.nbytes)


class MemoryBudget:
    """See the module.

    Args:
        limit_bytes: what the trees may hold together.
        store: where to put what does not fit; None: nowhere.
        new_lock: makes locks, `threading.Lock` where trees of this budget are used by several threads (each
            tree by one at a time): a thread that is over the limit then passes over trees in use.

    Attributes:
        limit_bytes: as given.
        store: as given.
        nbytes: what the trees hold.
        problem: the last error of the store; None if it has worked since.
    """

    def __init__(
        self, limit_bytes: int, store: BlobStore | None = None, *, new_lock: Callable[[], Lock] = NoLock
    ) -> None:
        if limit_bytes < 1:
            raise ValueError("a memory budget must be positive")
        self.limit_bytes = limit_bytes
        self.store = store
        self.new_lock = new_lock
        self.nbytes = 0
        self.problem: StorageError | None = None
        # Living trees in the order of their last use.
        self._trees: dict[int, weakref.ref[Holder]] = {}
        self._joined = 0
        self._gone: deque[tuple[int, int]] = deque()
        self._counting = new_lock()
        self._relieving = new_lock()

    @property
    def over(self) -> bool:
        """Whether the trees hold more than the limit although all was tried: stop reading.

        Call `relieve` from time to time while this is so: a store may have room again.
        """
        return self.nbytes > self.limit_bytes

    def join(self, tree: Holder) -> Share:
        """Count a tree; the share must live as long as the tree, and no longer."""
        with self._counting:
            self._part()
            self._joined += 1
            self._trees[self._joined] = weakref.ref(tree)
            return Share(self, self._joined)

    def note(self, number: int, more_bytes: int, *, used: bool) -> None:
        """A tree holds more or less than before; if it was used, it is the last to give up memory."""
        with self._counting:
            self._part()
            self.nbytes += more_bytes
            if used:
                self._trees[number] = self._trees.pop(number)

    def leave(self, number: int, nbytes: int) -> None:
        """A tree is gone.

        The garbage collector calls this from whatever thread allocates, perhaps one that is counting: so it
        never waits, and what cannot be counted at once is counted next time.
        """
        self._gone.append((number, nbytes))
        if self._counting.acquire(blocking=False):
            try:
                self._part()
            finally:
                self._counting.release()

    def _part(self) -> None:
        """Count the trees that are gone no longer."""
        while self._gone:
            number, nbytes = self._gone.popleft()
            self.nbytes -= nbytes
            self._trees.pop(number, None)

    def relieve(self) -> None:
        """Have trees give up memory until all of them hold what RELIEVED_SHARE says, if they can.

        Compressing a root is cheaper than reading back from a store, so all cold roots are pushed down before
        the first buffer is spilled; the root of the tree used last, which is filling, comes at the very end.

        Cost: nothing while all is within the limit.
        """
        if self.nbytes <= self.limit_bytes or not self._relieving.acquire(blocking=False):
            return
        try:
            with self._counting:
                self._part()
                trees = [tree for tree in (held() for held in self._trees.values()) if tree is not None]
            self._ask(trees[:-1], root=True, spill=False)
            if self.store is not None:
                self._ask(trees, root=False, spill=True)
            self._ask(trees[-1:], root=True, spill=self.store is not None)
            self.problem = None
        except StorageError as error:
            self.problem = error
        finally:
            self._relieving.release()

    def _ask(self, trees: list[Holder], *, root: bool, spill: bool) -> None:
        goal = int(self.limit_bytes * RELIEVED_SHARE)
        for tree in trees:
            if self.nbytes <= goal:
                return
            tree.release(self.nbytes - goal, root=root, spill=spill)
