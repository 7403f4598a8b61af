"""One limit on the memory of many trees, and the store that takes what does not fit.

When the trees together hold more than the limit, the coldest push their roots down, then hand their
compressed buffers to the store. A store that refuses loses nothing: the data stay in memory, and `over` says
that no more should come in. Trees may belong to an account (of a job): one beyond its share gives up memory
first. With one thread, memory is given up in the same order in every run.

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
"""Of the limit, what is held after memory was given up: so that this is not done for every batch."""

ROOT_SHARE = 0.4
"""Of the limit, what the root of one tree may take: the rest holds far more keys compressed."""


class BlobStore(Protocol):
    """Bytes by number, on a disk or elsewhere."""

    def put(self, blob: bytes, /) -> int:
        """Keep bytes; their number. Raises StorageError: they could not be written. Nothing is kept."""
        ...

    def get(self, number: int, /) -> bytes:
        """The bytes of a number that was not dropped. Raises StorageError: they could not be read."""
        ...

    def drop(self, number: int, /) -> None:
        """Forget a number; its space may be used again. Does not fail."""
        ...

    @property
    def nbytes(self) -> int: ...


class Lock(Protocol):
    """What `threading.Lock` gives."""

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
    """A lock where there is one thread. It can be taken once, as a real one."""

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken = False

    def acquire(self, blocking: bool = True) -> bool:
        """True unless it is taken. No other tree could give it back, so to wait for it is a mistake."""
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
    """A tree, as the budget sees it."""

    def release(self, bytes_wanted: int, *, root: bool, spill: bool) -> None:
        """Give up `bytes_wanted`, if no other thread is using the tree, and report.

        `root` pushes the root down, `spill` hands buffers to the store. StorageError: the store refused;
        nothing is lost.
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
        """Report what the tree holds; `used` if that is because something came in."""
        self._budget.note(self._number, nbytes - self.nbytes, used=used)
        self.nbytes = nbytes

    def __del__(self) -> None:
        self._budget.leave(self._number, self.nbytes)


class Account:
    """The budget as one job's trees see it; `yielded` counts how often they gave up memory before others."""

    def __init__(self, budget: MemoryBudget, share: float) -> None:
        self._budget, self._share = budget, share
        self.nbytes = self.yielded = 0

    @property
    def limit_bytes(self) -> int:
        """Of all trees together: where no other account needs memory, all of it may be held."""
        return self._budget.limit_bytes

    @property
    def share_bytes(self) -> int:
        """What these trees may hold while others need memory."""
        return int(self._budget.limit_bytes * self._share)

    @property
    def beyond_bytes(self) -> int:
        return max(0, self.nbytes - self.share_bytes)

    @property
    def is_in_the_way(self) -> bool:
        """Whether they are beyond their share, with nothing left to spill: take in no more.

        This is true before `MemoryBudget.over`, so that others have room to go on.
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

    def join(self, tree: BudgetUser) -> Share:
        return self._budget.join(tree, self)

    def relieve(self) -> None:
        self._budget.relieve()


class MemoryBudget:
    """See the module.

    Args:
        limit_bytes: what the trees may hold together.
        store: where to put what does not fit; None: nowhere.
        new_lock: makes locks, `threading.Lock` where several threads use trees of this budget (each tree by
            one at a time): a thread that is over the limit then passes over trees in use.
        job_share: of the limit, what the trees of one account may hold while others need memory.

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
        # Living trees in the order of their last use.
        self._trees: dict[int, tuple[weakref.ref[BudgetUser], Account | None]] = {}
        self._joined = 0
        self._gone: deque[tuple[int, int]] = deque()
        self._counting = new_lock()
        self._relieving = new_lock()

    @property
    def over(self) -> bool:
        """Whether the trees hold more than the limit although all was tried: stop reading.

        Call `relieve` from time to time while this is so, because a store may have room again.
        """
        return self.nbytes > self.limit_bytes

    def account(self) -> Account:
        return Account(self, self._job_share)

    def join(self, tree: BudgetUser, account: Account | None = None) -> Share:
        """Count a tree; the share must live as long as the tree, and no longer."""
        with self._counting:
            self._part()
            self._joined += 1
            self._trees[self._joined] = (weakref.ref(tree), account)
            return Share(self, self._joined)

    def note(self, number: int, more_bytes: int, *, used: bool) -> None:
        """A tree holds more or less than before; if it was used, it is the last to give up memory."""
        with self._counting:
            self._part()
            self._count(number, more_bytes)
            if used:
                self._trees[number] = self._trees.pop(number)

    def leave(self, number: int, nbytes: int) -> None:
        """A tree is gone.

        The garbage collector calls this from any thread, perhaps one that is counting. It therefore never
        waits; what cannot be counted at once is counted next time.
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
        """Have trees give up memory until all of them hold what RELIEVED_SHARE says, if they can.

        Compressing a root is cheaper than reading back from a store, so all cold roots are pushed down before
        the first buffer is spilled. The root of the tree used last, which is filling, comes at the very end.
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
                return  # there is no other
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
"""What a tree may be given."""
