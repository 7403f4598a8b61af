"""The garbage collector may end a tree at any moment, also while its thread counts another one."""

from __future__ import annotations

import threading
from typing import Any

from elfmesh.cbt.budget import MemoryBudget
from tests.patience import PATIENCE_S


class Tree:
    def release(self, bytes_wanted: int, *, root: bool, spill: bool) -> None:
        raise AssertionError("no tree is over the limit")


def test_a_tree_may_end_in_the_middle_of_the_count() -> None:
    budget = MemoryBudget(1000, new_lock=threading.Lock)
    trees = [Tree(), Tree()]
    shares: list[Any] = [budget.join(tree) for tree in trees]
    for share in shares:
        share.report(100, used=True)
    del share
    done = threading.Event()

    def count() -> None:
        with budget._counting:
            shares.clear()  # as a collector would, which runs in whatever thread allocates
        done.set()

    threading.Thread(target=count, daemon=True).start()
    assert done.wait(PATIENCE_S), "a thread waits for itself"
    kept = budget.join(trees[0])
    kept.report(50, used=True)
    assert budget.nbytes == 50
