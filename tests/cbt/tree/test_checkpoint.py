"""What a checkpoint brings back, and damaged ones."""

from __future__ import annotations

import random

import pytest

from elfmesh.cbt import TreeLimits
from elfmesh.errors import ProtocolError
from tests.cbt.trees import TINY, Row, content, counts, insert_keys, model, tiny_tree, to_batch


def test_a_checkpoint_brings_back_rows_and_types() -> None:
    tree = tiny_tree()
    rng = random.Random(3)
    rows: list[Row] = [(f"k{rng.randrange(300)}", None, rng.random(), None) for _ in range(900)]
    for start in range(0, 900, 90):
        tree.insert(to_batch(rows[start : start + 90]))
    checkpoint = b"".join(tree.save())
    for limits in (TINY, TreeLimits(), TreeLimits(root_rows=50, leaf_rows_max=30)):
        again = tiny_tree(limits=limits)
        again.insert(to_batch(rows[:5]))
        again.load([checkpoint])
        assert content(again.flush()) == model(rows)
        assert again.types == tree.types
        again.insert(to_batch(rows))
        assert content(again.flush()) == model(rows * 2)
    empty = tiny_tree()
    again.load(tiny_tree().save())
    assert again.flush() == empty.flush()


def test_a_damaged_checkpoint_changes_nothing() -> None:
    tree = tiny_tree(["k"], {"n": ("count", None)})
    insert_keys(tree, list(range(500)))
    frames = list(tree.save())
    other = tiny_tree(["k"], {"n": ("count", None)})
    insert_keys(other, [1])
    flipped = bytearray(b"".join(frames))
    flipped[len(flipped) // 2] ^= 1
    damaged = [
        [],
        frames[:-1],
        frames[:1],
        frames[1:],
        [*frames[:2], *frames[3:]],
        [*frames, b"x"],
        [b"".join(frames)[:-1]],
        [bytes(flipped)],
        [b"\xff" * 100],
        list(tiny_tree(["j"], {"n": ("count", None)}).save()),
    ]
    for chunks in damaged:
        with pytest.raises(ProtocolError):
            other.load(chunks)
        assert counts(other) == {1: 1}
