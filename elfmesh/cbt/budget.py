"""Memory budget of many trees, and the store to which they spill.

If the trees together exceed the limit, the coldest ones push their roots down and then spill their compressed
buffers to the store. If the store fails, nothing is lost: the data stay in memory, and `over` reports that no
more input should be accepted. Trees may belong to an account (of a job); an account beyond its share gives up
memory first. With one thread, memory is given up in the same order in every run.

Paper: ELF 2.2 ("can be externalized to SSD or disk").
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, TypeAlias

from elfmesh.errors import StorageError

RELIEVED_SHARE = 0.875
"""Share of the limit that is held after memory was given up, so that this does not happen for every batch."""

ROOT_SHARE = 0.4
"""Share of the limit for the root of one tree, because the rest holds far more keys in compressed form."""


class BlobStore(Protocol):
    """Store of bytes by number, on a disk or elsewhere."""

    def put(self, blob: bytes, /) -> int:
        """Store bytes; returns their number.

        Raises StorageError if they cannot be written; nothing is stored then.
        """
        ...

    def get(self, number: int, /) -> bytes:
        """Return the bytes of a number that was not dropped. Raises StorageError if they cannot be read."""
        ...

    def drop(self, number: int, /) -> None:
        """Delete a number, whose space may be used again. Never fails."""
        ...

    @property
    def nbytes(self) -> int: ...


class Lock(Protocol):
    """Interface of `threading.Lock`."""

    def acquire(self, blocking: bool = True) -> bool: ...

    def release(self) -> None: ...

    def __enter__(self) -> bool: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class NoLock:
    """Lock for a single thread. Like a real lock, it can be acquired only once."""

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken = False

    def acquire(self, blocking: bool = True) -> bool:
        """Return True unless it is acquired.

        Waiting for it would be a programming error, because no other thread releases it.
        """
        if self._taken:
            if blocking:
                raise RuntimeError("a tree is used from within itself")
            return False
        self._taken = True
        return True

    def release(self) -> None:
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


class BudgetUser(Protocol):
    """Tree, as the budget uses it."""

    def release(self, bytes_wanted: int, *, root: bool, spill: bool) -> None:
        """Give up `bytes_wanted` and report it, unless another thread is using the tree.

        `root` pushes the root down, `spill` moves buffers to the store. Raises StorageError if the store
        fails; nothing is lost.
        """
        ...


class TreeShare:
    """Bytes that one tree reports to its budget; removed with the tree."""

    __slots__ = ("_budget", "_number", "nbytes")

    def __init__(self, budget: MemoryBudget, number: int) -> None:
        self._budget = budget
        self._number = number
        self.nbytes = 0

    def report(self, nbytes: int, *, used: bool) -> None:
        """Report the bytes of the tree; `used` if they changed because of input."""
        self._budget.note(self._number, nbytes - self.nbytes, used=used)
        self.nbytes = nbytes

    def __del__(self) -> None:
        self._budget.leave(self._number, self.nbytes)


class Account:
    """Budget of one job's trees; `yielded` counts how often they gave up memory before others."""

    def __init__(self, budget: MemoryBudget, share: float) -> None:
        self._budget, self._share = budget, share
        self.nbytes = self.yielded = 0

    @property
    def limit_bytes(self) -> int:
        """Return the limit of all trees together, which one account may use while no other needs memory."""
        return self._budget.limit_bytes

    @property
    def share_bytes(self) -> int:
        """Return the bytes that these trees may hold while others need memory."""
        return int(self._budget.limit_bytes * self._share)

    @property
    def beyond_bytes(self) -> int:
        return max(0, self.nbytes - self.share_bytes)

    @property
    def is_in_the_way(self) -> bool:
        """Return whether the trees exceed their share and cannot spill, so that they must not accept input.

        This is true before `MemoryBudget.over`, so that others have room to continue.
        """
        budget = self._budget
        stuck = budget.store is None or budget.problem is not None
        return stuck and self.beyond_bytes > 0 and budget.nbytes > budget.limit_bytes * RELIEVED_SHARE

    @property
    def store(self) -> BlobStore | None:
        return self._budget.store

    @property
    def problem(self) -> StorageError | None:
        return self._budget.problem

    @problem.setter
    def problem(self, error: StorageError | None) -> None:
        self._budget.problem = error

    @property
    def new_lock(self) -> Callable[[], Lock]:
        return self._budget.new_lock

    def join(self, tree: BudgetUser) -> TreeShare:
        return self._budget.join(tree, self)

    def relieve(self) -> None:
        self._budget.relieve()


class MemoryBudget:
    """Limit on the memory of many trees.

    Args:
        limit_bytes: bytes that the trees may hold together.
        store: store for spilled data; None: no spilling.
        new_lock: makes locks; `threading.Lock` if several threads use trees of this budget (one thread per
            tree at a time). A thread over the limit then skips trees that are in use.
        job_share: share of the limit that the trees of one account may hold while others need memory.

    `problem` is the last error of the store; None if it has worked since.
    """

    def __init__(
        self,
        limit_bytes: int,
        store: BlobStore | None = None,
        *,
        new_lock: Callable[[], Lock] = NoLock,
        job_share: float = 1.0,
    ) -> None:
        if limit_bytes < 1:
            raise ValueError("a memory budget must be positive")
        self.limit_bytes = limit_bytes
        self.store = store
        self.new_lock, self._job_share = new_lock, job_share
        self.nbytes = 0
        self.problem: StorageError | None = None
        # Living trees, ordered by their last use.
        self._trees: dict[int, tuple[weakref.ref[BudgetUser], Account | None]] = {}
        self._joined = 0
        self._gone: deque[tuple[int, int]] = deque()
        self._counting = new_lock()
        self._relieving = new_lock()

    @property
    def over(self) -> bool:
        """Return whether the trees exceed the limit although everything was tried, so that reading must stop.

        Call `relieve` repeatedly in this state, because the store may have room again.
        """
        return self.nbytes > self.limit_bytes

    def account(self) -> Account:
        return Account(self, self._job_share)

    def join(self, tree: BudgetUser, account: Account | None = None) -> TreeShare:
        """Add a tree. The returned share must live exactly as long as the tree."""
        with self._counting:
            self._part()
            self._joined += 1
            self._trees[self._joined] = (weakref.ref(tree), account)
            return TreeShare(self, self._joined)

    def note(self, number: int, more_bytes: int, *, used: bool) -> None:
        """Add a change of a tree's bytes. A tree that was used becomes the last one to give up memory."""
        with self._counting:
            self._part()
            self._count(number, more_bytes)
            if used:
                self._trees[number] = self._trees.pop(number)

    def leave(self, number: int, nbytes: int) -> None:
        """Remove a tree.

        The garbage collector calls this from any thread, perhaps one that holds the lock. It therefore never
        waits; an update that is impossible now is made at the next opportunity.
        """
        self._gone.append((number, nbytes))
        if self._counting.acquire(blocking=False):
            try:
                self._part()
            finally:
                self._counting.release()

    def _part(self) -> None:
        while self._gone:
            number, nbytes = self._gone.popleft()
            self._count(number, -nbytes)
            self._trees.pop(number, None)

    def _count(self, number: int, more_bytes: int) -> None:
        self.nbytes += more_bytes
        _, account = self._trees.get(number, (None, None))
        if account is not None:
            account.nbytes += more_bytes

    def relieve(self) -> None:
        """Make trees give up memory until they hold RELIEVED_SHARE of the limit, if possible.

        Compressing a root is cheaper than reading back from a store, so all cold roots are pushed down before
        the first buffer is spilled. The root of the tree that was used last, which is being filled, is the
        very last.
        """
        if self.nbytes <= self.limit_bytes or not self._relieving.acquire(blocking=False):
            return
        try:
            with self._counting:
                self._part()
                found = [(held(), account) for held, account in self._trees.values()]
            trees = [tree for tree, _ in found if tree is not None]
            self._ask_beyond([(tree, account) for tree, account in found if tree is not None])
            self._ask(trees[:-1], root=True, spill=False)
            if self.store is not None:
                self._ask(trees, root=False, spill=True)
            self._ask(trees[-1:], root=True, spill=self.store is not None)
            self.problem = None
        except StorageError as error:
            self.problem = error
        finally:
            self._relieving.release()

    def _ask_beyond(self, trees: list[tuple[BudgetUser, Account | None]]) -> None:
        accounts = {id(account): account for _, account in trees if account is not None}
        beyond = [each for each in accounts.values() if each.beyond_bytes]
        for account in sorted(beyond, key=lambda each: -each.beyond_bytes):
            own = [tree for tree, its in trees if its is account]
            if len(own) == len(trees):
                return  # there is no other tree
            account.yielded += 1
            for spill in (False, True) if self.store is not None else (False,):
                for tree in own:
                    wanted = min(account.beyond_bytes, self.nbytes - int(self.limit_bytes * RELIEVED_SHARE))
                    if wanted > 0:
                        tree.release(wanted, root=not spill, spill=spill)

    def _ask(self, trees: list[BudgetUser], *, root: bool, spill: bool) -> None:
        goal = int(self.limit_bytes * RELIEVED_SHARE)
        for tree in trees:
            if self.nbytes <= goal:
                return
            tree.release(self.nbytes - goal, root=root, spill=spill)


Budget: TypeAlias = MemoryBudget | Account
"""Budget of a tree: the whole, or an account of it."""
