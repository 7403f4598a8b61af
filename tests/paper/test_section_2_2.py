"""ELF (USENIX ATC 2014), section 2.2 and Figure 5: the compressed buffer tree."""

from __future__ import annotations

import pyarrow as pa

from elfmesh.cbt import (
    CompressedBufferTree,
    TreeLimits,
    finish,
    subtract,
)
from tests.paper.cases import CASES, as_dict, sums


def test_pao_merge() -> None:
    """2.2: "each newly parsed key-value pair is represented as a partial aggregation object (PAO)"; Figure 5
    merges two PAOs of one key.
    """
    case = CASES["pao_merge"]
    left, right = (sums([pair]) for pair in case["input"])
    left.insert_partial(right.partial())
    assert as_dict(left.flush()) == dict([case["expected"]])


def test_invertible_reduce() -> None:
    """2.2: "If the application needs a windowing value in [5,15), rather than repeatedly adding the counts in
    [5,10) with multiple operations, it can simply perform one single operation PAO15 - PAO5, where - is an
    'invertible reduce'".
    """
    case = CASES["invertible_reduce"]["example"]
    tree = sums([["Angry Birds", 1]] * case["PAO5"]["Angry Birds"])
    pao5 = tree.partial()
    more = case["PAO15"]["Angry Birds"] - case["PAO5"]["Angry Birds"]
    tree.insert_partial(sums([["Angry Birds", 1]] * more).partial())
    pao15 = tree.partial()
    assert as_dict(finish({"main": pao5})["main"]) == case["PAO5"]
    assert as_dict(finish({"main": pao15})["main"]) == case["PAO15"]
    window = subtract({"main": pao15}, {"main": pao5})
    assert as_dict(finish(window)["main"]) == case["expected_5_15"]


def test_interval_results_by_insert_and_flush() -> None:
    """2.2: "the application obtains the local agent's results in intervals [0,5), [0,10), [0,15), etc. as
    PAO5, PAO10, PAO15" by "inserting new key-value pairs, and periodically flushing the CBT".
    """
    tree = sums([["Angry Birds", 3]])
    seen = [as_dict(tree.flush())["Angry Birds"]]
    for clicks in (1, 4):
        tree.insert(pa.record_batch({"key": ["Angry Birds"], "v": [clicks]}))
        seen.append(as_dict(tree.flush())["Angry Birds"])
    assert seen == [3, 4, 8]


TINY = TreeLimits(
    root_rows=64, root_rows_max=64, root_bits=4, buffer_rows_max=32, leaf_rows_max=8, pending_rows_min=4
)


def tiny_tree() -> CompressedBufferTree:
    return CompressedBufferTree(["key"], {"value": ("sum", "v")}, limits=TINY)


def test_the_insert_is_deferred_and_the_buffer_flushed_to_the_next_level_at_a_threshold() -> None:
    """2.2: "the CBT simply defers the insert. Then, when a buffer reaches some threshold (e.g., half the
    capacity), it is flushed into the buffers of nodes in the next level".
    """
    tree = tiny_tree()
    tree.insert(pa.record_batch({"key": list(range(30)), "v": [1] * 30}))
    assert tree.depth == 1
    tree.insert(pa.record_batch({"key": list(range(30, 200)), "v": [1] * 170}))
    assert tree.depth > 1
    assert as_dict(tree.flush()) == dict.fromkeys(range(200), 1)


def test_a_full_leaf_splits_into_the_parent() -> None:
    """2.2: "Such an insertion behaves like a B-tree: a full leaf is split into a new leaf and the new leaf is
    added to the parent of the leaf".
    """
    tree = tiny_tree()
    depths = []
    for start in range(0, 2000, 100):
        tree.insert(pa.record_batch({"key": list(range(start, start + 100)), "v": [1] * 100}))
        depths.append(tree.depth)
    assert depths == sorted(depths)
    assert depths[-1] > 3
    assert as_dict(tree.flush()) == dict.fromkeys(range(2000), 1)


def test_flush_fetches_and_keeps_while_empty_erases() -> None:
    """2.2: ""insert" to fill, "flush" to fetch the tree's entire groupby-aggregate results, and "empty" to
    empty the tree's buffers, which is necessary when the application wants to start a new batch".
    """
    tree = tiny_tree()
    tree.insert(pa.record_batch({"key": list(range(300)), "v": [2] * 300}))
    assert as_dict(tree.flush()) == as_dict(tree.flush()) == dict.fromkeys(range(300), 2)
    tree.empty()
    assert (tree.flush().num_rows, tree.rows) == (0, 0)
    assert tree.nbytes == tiny_tree().nbytes < 2000  # the tree itself


def test_past_pairs_are_held_in_compressed_form() -> None:
    """2.2: "holding a considerable number of 'past' key-value pairs, by storing such data in compressed
    form".
    """
    tree = CompressedBufferTree(["key"], {"value": ("sum", "v")})
    keys = [f"/shop/product/{number}" for number in range(20_000)]
    tree.insert(pa.record_batch({"key": keys, "v": [1] * 20_000}))
    open_bytes = tree.nbytes
    tree.push_down()
    assert tree.nbytes < open_bytes / 3
