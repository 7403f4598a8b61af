"""What the parts of a forest share: links by peer, alarms by tree, merges by token."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.overlay import Unwatch, Watch
from elfmesh.srt.context import FIRST_TOKEN, Context
from elfmesh.srt.events import MergeRequest
from tests.srt.rig import contact

A, B = b"a" * 20, b"b" * 20


def made() -> Context:
    return Context(contact(1), random.Random(1), lambda _tree: None, lambda *_: None)


def test_a_peer_is_watched_as_long_as_one_tree_needs_it() -> None:
    context, peer = made(), contact(2)
    context.link(A, peer)
    context.link(B, peer)
    context.link(B, peer)
    assert context.take() == [Watch(peer)]
    context.unlink(A, peer.id)
    context.unlink(A, peer.id)
    assert context.take() == []
    context.unlink(B, peer.id)
    context.unlink(B, peer.id)
    assert context.take() == [Unwatch(peer.id)]


def test_a_merge_is_answered_once() -> None:
    context = made()
    token = context.request_merge(A, 7, (b"x", b"y"))
    assert token > FIRST_TOKEN
    assert context.take() == [MergeRequest(token, (b"x", b"y"), A, 7)]
    assert context.merge_answered(token + 1) is None
    assert context.merge_answered(token) == A
    assert context.merge_answered(token) is None


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.integers(0, 9)), max_size=8), st.integers(0, 10))
def test_each_tree_has_its_earliest_alarm(armed: list[tuple[bytes, int]], now: int) -> None:
    context = made()
    earliest: dict[bytes, int] = {}
    for tree, at in armed:
        context.arm(tree, at)
        earliest[tree] = min(at, earliest.get(tree, at))
    assert context.deadline == min(earliest.values(), default=None)
    assert sorted(context.due(now)) == sorted(tree for tree, at in earliest.items() if at <= now)
    assert context.due(now) == []
    assert context.deadline == min((at for at in earliest.values() if at > now), default=None)


@pytest.mark.parametrize("later", [None, 5.0, 9.0])
def test_an_alarm_that_was_given_up_does_not_ring(later: float | None) -> None:
    context = made()
    context.arm(A, 5.0)
    context.disarm(A)
    context.arm(A, later)
    assert context.due(6.0) == ([A] if later == 5.0 else [])
