"""What several trees of a group deliver: an overlap of two copies is no conflict, and a member counts once.

Paper: Hwang et al., Theorem 1, with contributions in the place of tuples.
"""

from __future__ import annotations

import random
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.control.closing.stores.replica_buffers import ReplicaBuffers, covered_in_any
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.messages import Segment, SegmentEntry

EU, US = 0b0011, 0b1100
AT = 4


def segment(mask: int, *intervals: int, attempt: int = 0, rev: int = 1) -> Segment:
    entries = tuple(SegmentEntry(each, (mask.bit_count(),), 1, rev) for each in intervals)
    return Segment(1, attempt, 0, 10, bitmap_of(mask), entries)


def masks(store: ReplicaBuffers, interval: int = AT) -> list[int]:
    return sorted(part.mask for part in store.parts(interval))


def test_copies_that_overlap_partly_are_no_conflict() -> None:
    store = ReplicaBuffers(0, 2)
    for copy, mask in ((0, 0b011), (1, 0b001), (1, 0b110)):
        assert store.add(segment(mask, AT), (b"x",), copy) == []
    assert (store.covered(AT), masks(store)) == (0b111, [0b001, 0b110])


def test_each_group_is_taken_from_the_copy_that_is_complete_first() -> None:
    """No copy has both groups, so the first complete tree would be none."""
    store = ReplicaBuffers(0, 2)
    store.add(segment(EU, AT), (b"x",), 0)
    store.add(segment(0b0100, AT), (b"x",), 0)
    assert store.covered(AT) == 0b0111
    store.add(segment(US, AT), (b"x",), 1)
    assert (store.covered(AT), masks(store)) == (EU | US, [EU, US])
    store.add(segment(EU, AT), (b"x",), 1)
    assert masks(store) == [EU, US]


def test_a_member_without_records_is_covered_by_any_copy() -> None:
    store = ReplicaBuffers(0, 2)
    store.add(segment(0b0001, AT), (b"x",), 0)
    store.add(segment(0b0110), (), 1)
    assert (store.covered(AT), masks(store), store.covered(AT + 1)) == (0b0111, [0b0001], 0b0111)


def test_a_revision_of_any_copy_counts_and_one_copy_is_used() -> None:
    store = ReplicaBuffers(0, 2)
    store.add(segment(0b0001, AT), (b"x",), 0)
    store.add(segment(0b0010, AT), (b"x",), 0)
    store.add(segment(0b0011, AT), (b"x",), 1)
    assert store.add(segment(0b0001, AT, rev=2), (b"y",), 1) == [AT], "a merge contains it"
    assert store.is_revised(AT)
    assert store.lacks_revision(AT)
    store.add(segment(0b0001, AT, rev=2), (b"y",), 0)
    assert not store.lacks_revision(AT)
    assert (store.covered(AT), masks(store), store.revs(AT)) == (0b0011, [0b0001, 0b0010], {1: 2})


def test_a_member_is_left_out_by_the_copy_that_has_it_apart() -> None:
    store = ReplicaBuffers(0, 2)
    store.add(segment(0b0111, AT), (b"x",), 0)
    store.add(segment(0b0100, AT), (b"x",), 1)
    store.add(segment(0b0011, AT), (b"x",), 1)
    found = store.parts_without(AT, 0b0100)
    assert found is not None
    assert [part.mask for part in found] == [0b0011]
    assert store.parts_without(AT, 0b0001) is None
    assert store.parts_without(AT, 0b1000) == store.parts(AT)


def test_anything_that_a_copy_has_is_held() -> None:
    """A site must not vote on a record that leaves out what one of its copies has."""
    store = ReplicaBuffers(0, 2)
    store.add(segment(0b0101, AT), (b"x",), 0)
    store.add(segment(0b1011, AT), (b"x",), 1)
    assert store.covered(AT) == 0b1011
    assert covered_in_any([store], AT) == 0b1111


def test_a_failed_contribution_counts_as_covered_in_all_copies() -> None:
    store = ReplicaBuffers(0, 2)
    store.fail(0, 10, 0b0001)
    store.add(segment(0b0110, AT), (b"x",), 1)
    assert store.covered(AT) == 0b0111


def test_what_is_closed_is_forgotten_in_all_copies() -> None:
    store = ReplicaBuffers(0, 2)
    for copy in range(2):
        store.add(segment(0b0001, AT, AT + 1), (b"x", b"y"), copy)
    assert (store.nbytes, store.first(0, 10)) == (4, AT)
    store.drop_below(AT + 1)
    assert (store.nbytes, store.first(0, 10), store.frontier(0)) == (2, AT + 1, 10)


def test_more_copies_than_the_text_names_fill_the_first_one() -> None:
    store = ReplicaBuffers(0, 1)
    store.add(segment(0b0001, AT), (b"x",), 3)
    assert store.covered(AT) == 0b0001


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 3), st.integers(1, 9))
def test_any_order_loss_and_repetition_counts_each_contribution_once(
    seed: int, copies: int, members: int
) -> None:
    """Theorem 1: what comes out is what each single copy would give, as soon as one has each group."""
    rng = random.Random(seed)
    values = [rng.choice((0, 1 << number)) for number in range(members)]  # 0: no records
    messages = []
    for copy in range(copies):
        rest = list(range(members))
        rng.shuffle(rest)
        while rest:
            taken, rest = rest[: (size := rng.randint(1, 3))], rest[size:]
            mask = sum(1 << each for each in taken)
            messages.append((copy, mask, sum(values[each] for each in taken)))
    lost = rng.random() / 2
    kept = [each for each in messages if rng.random() >= lost]
    kept += rng.sample(kept, len(kept) // 2)
    rng.shuffle(kept)
    store, arrived = ReplicaBuffers(0, copies), [0] * copies
    for copy, mask, value in kept:
        entries = (AT,) if value else ()
        assert store.add(segment(mask, *entries), (value.to_bytes(2, "big"),) * len(entries), copy) == []
        arrived[copy] |= mask
        parts, inside = store.parts(AT), store.covered(AT)
        total = sum(int.from_bytes(part.payload, "big") for part in parts)
        assert total == sum(value for bit, value in zip(count(), values) if inside >> bit & 1)
        assert sum(part.mask.bit_count() for part in parts) == sum(1 for bit in range(members) if any(
            part.mask >> bit & 1 for part in parts
        ))  # fmt: skip
        assert inside.bit_count() >= max(each.bit_count() for each in arrived)


@pytest.mark.parametrize("number", [1, 2])
def test_a_dead_member_is_added_to_all_copies(number: int) -> None:
    store = ReplicaBuffers(0, number)
    store.add_everywhere(segment(0b0100, AT), (b"x",))
    assert all(each.covered(AT) == 0b0100 for each in store.copies)
