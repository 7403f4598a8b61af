"""What a tree holds at one moment, read one leaf at a time."""

from __future__ import annotations

from tests.cbt.trees import (
    insert_keys,
    tiny_tree,
)


def test_a_snapshot_stays_what_it_was() -> None:
    tree = tiny_tree(["k"], {"n": ("count", None)})
    insert_keys(tree, list(range(200)))
    insert_keys(tree, [1, 2])
    snapshot = tree.snapshot()
    for _ in range(5):
        insert_keys(tree, list(range(300)))
    tree.empty()
    for _ in range(2):
        rows = list(snapshot.rows())
        assert sum(block.count for block in rows) == 200
        assert sum(int(block.states[0].parts["rows"].sum()) for block in rows) == 202
    assert snapshot.rows_max >= 200


def test_reading_gives_one_leaf_at_a_time() -> None:
    tree = tiny_tree(["k"], {"n": ("count", None)})
    insert_keys(tree, list(range(2000)))
    tree.push_down()
    sizes = [block.count for block in tree.snapshot().sorted()]
    assert len(sizes) > 50
    assert max(sizes) < 100
