"""What the trees of one job may hold while others need memory: who is beyond it gives up first."""

from __future__ import annotations

import gc

from elfmesh.cbt import CompressedBufferTree, kernel
from elfmesh.cbt.budget import Account, MemoryBudget
from elfmesh.cbt.kernel import numpy_twin
from elfmesh.errors import StorageError
from tests.cbt.stores import MemoryStore
from tests.cbt.test_budget import LIMITS, counts, insert, texts

LIMIT = 320_000 if kernel.active is numpy_twin else 200_000
"""The twin's tables hold more for the same groups."""

SMALL, LARGE = texts(range(1_500)), texts(range(20_000), salt=1)


def tree_of(account: Account) -> CompressedBufferTree:
    return CompressedBufferTree(["k"], {"n": ("count", None)}, limits=LIMITS, budget=account)


def filled(
    budget: MemoryBudget,
) -> tuple[CompressedBufferTree, Account, int, CompressedBufferTree, Account]:
    """A job within its share that was quiet since, with what it held, and one that takes all it gets."""
    modest, hungry = budget.account(), budget.account()
    small, large = tree_of(modest), tree_of(hungry)
    for start in range(0, len(SMALL), 500):
        insert(small, SMALL[start : start + 500])
    held = modest.nbytes
    for start in range(0, len(LARGE), 500):
        insert(large, LARGE[start : start + 500])
    return small, modest, held, large, hungry


def test_a_job_beyond_its_share_is_spilled_before_a_colder_one_within_it() -> None:
    store = MemoryStore()
    budget = MemoryBudget(LIMIT, store, job_share=0.5)
    small, modest, held, large, hungry = filled(budget)
    assert modest.nbytes < modest.share_bytes == LIMIT // 2
    assert (modest.yielded, hungry.yielded > 0) == (0, True)
    assert store.nbytes > 0
    assert modest.nbytes == held, "it was the coldest, and all the same it gave up nothing"
    assert hungry.nbytes <= hungry.share_bytes + 50_000
    assert not budget.over
    assert counts(small) == dict.fromkeys(SMALL, 1)
    assert counts(large) == dict.fromkeys(LARGE, 1)


def test_without_shares_the_coldest_goes_first() -> None:
    """What the test above would see if shares did nothing."""
    _, modest, held, large, _ = filled(MemoryBudget(LIMIT, MemoryStore(), job_share=1.0))
    assert modest.nbytes < held // 2
    assert counts(large) == dict.fromkeys(LARGE, 1)


def test_alone_a_job_may_hold_everything() -> None:
    store = MemoryStore()
    budget = MemoryBudget(LIMIT, store, job_share=0.25)
    account = budget.account()
    tree = tree_of(account)
    for start in range(0, 1_500, 500):
        insert(tree, LARGE[start : start + 500])
    assert account.beyond_bytes > 0
    assert account.yielded == 0
    assert store.nbytes == 0


def test_without_a_store_an_account_beyond_its_share_waits_before_the_others_have_to() -> None:
    budget = MemoryBudget(LIMIT, job_share=0.5)
    modest, hungry = budget.account(), budget.account()
    small, large = tree_of(modest), tree_of(hungry)
    insert(small, SMALL[:500])
    start = 0
    while not hungry.is_in_the_way:
        insert(large, LARGE[start : start + 250])
        start += 250
    assert not budget.over, "others can go on"
    assert not modest.is_in_the_way
    insert(small, SMALL[500:600])
    assert not budget.over
    del large
    gc.collect()
    budget.relieve()
    assert hungry.nbytes == 0
    assert not hungry.is_in_the_way


def test_a_store_that_refuses_is_no_place_either() -> None:
    class Full(MemoryStore):
        def put(self, blob: bytes, /) -> int:
            raise StorageError("full")

    budget = MemoryBudget(LIMIT, Full(), job_share=0.25)
    modest, hungry = budget.account(), budget.account()
    small, large = tree_of(modest), tree_of(hungry)
    insert(small, SMALL[:500])
    for start in range(0, len(LARGE), 500):
        insert(large, LARGE[start : start + 500])
        if budget.over:
            break
    assert budget.problem is not None
    assert hungry.is_in_the_way
    assert not modest.is_in_the_way
