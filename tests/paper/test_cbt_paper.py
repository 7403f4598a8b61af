"""ELF (USENIX ATC 2014), sections 2.1, 2.2 and Figures 3, 5, 6: the paper on compressed buffer trees."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from elfmesh.cbt import (
    CompressedBufferTree,
    Panes,
    TreeLimits,
    decode_partial,
    encode_partial,
    finish,
    merge_partials,
    subtract,
)

CASES: dict[str, dict[str, Any]] = {
    "local_groupby": {
        "input": [["a", 1], ["b", 1], ["a", 1], ["b", 1], ["b", 1]],
        "expected": {"a": 2, "b": 3},
    },
    "rollup_tree": {
        "leaves": [{"a": 2, "b": 3}, {"a": 5}, {"b": 2, "c": 2}],
        "expected_root": {"a": 7, "b": 5, "c": 2},
    },
    "product_bundling_edges": {
        "input": [["a", "b"], ["b", "a"], ["a", "c"], ["c", "f"], ["d", "e"], ["d", "g"], ["d", "h"]],
        "expected": {"a": ["b", "c"], "b": ["a"], "c": ["f"], "d": ["e", "g", "h"]},
    },
    # The rule is the paper's, the numbers are not.
    "invertible_reduce": {
        "example": {
            "PAO5": {"Angry Birds": 3},
            "PAO15": {"Angry Birds": 8},
            "expected_5_15": {"Angry Birds": 5},
        }
    },
    "pao_merge": {"input": [["argu", 2], ["argu", 5]], "expected": ["argu", 7]},
}
"""The worked examples that the tests quote."""


@pytest.fixture(scope="module")
def cases() -> dict[str, dict[str, Any]]:
    return CASES


def sums(pairs: list[list[Any]]) -> CompressedBufferTree:
    tree = CompressedBufferTree(["key"], {"n": ("count", None), "value": ("sum", "v")})
    tree.insert(pa.record_batch({"key": [key for key, _ in pairs], "v": [value for _, value in pairs]}))
    return tree


def as_dict(table: pa.Table) -> dict[Any, int]:
    return dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


def test_local_groupby(cases: dict[str, dict[str, Any]]) -> None:
    """2.1: "batches of logs are parsed as a map from product name (key) to the number of clicks (value), and
    groupby-aggregated like (a, 1), (b, 1), (a, 1), (b, 1), (b, 1) -> (a, 2), (b, 3)".
    """
    case = cases["local_groupby"]
    assert as_dict(sums(case["input"]).flush()) == case["expected"]


def test_rollup_tree(cases: dict[str, dict[str, Any]]) -> None:
    """2.1: "progressively 'rolls up' and reduces those local key-value pairs ... from tree leaves are reduced
    as (a, 7), (b, 5), (c, 2) to the root".
    """
    case = cases["rollup_tree"]
    leaves = [
        encode_partial({"main": sums([list(pair) for pair in leaf.items()]).partial()})
        for leaf in case["leaves"]
    ]
    for shape in ([leaves], [leaves[:2], leaves[2:]], [leaves[2:], leaves[:2][::-1]]):
        root = merge_partials([merge_partials(part) for part in shape])
        assert as_dict(finish(decode_partial(root))["main"]) == case["expected_root"]


def test_pao_merge(cases: dict[str, dict[str, Any]]) -> None:
    """2.2: "each newly parsed key-value pair is represented as a partial aggregation object (PAO)"; Figure 5
    merges two PAOs of one key.
    """
    case = cases["pao_merge"]
    left, right = (sums([pair]) for pair in case["input"])
    left.insert_partial(right.partial())
    assert as_dict(left.flush()) == dict([case["expected"]])


def test_invertible_reduce(cases: dict[str, dict[str, Any]]) -> None:
    """2.2: "If the application needs a windowing value in [5,15), rather than repeatedly adding the counts in
    [5,10) with multiple operations, it can simply perform one single operation PAO15 - PAO5, where - is an
    'invertible reduce'".
    """
    case = cases["invertible_reduce"]["example"]
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


def test_product_bundling_edges(cases: dict[str, dict[str, Any]]) -> None:
    """Figure 6: "(a,<b>) (b,<a>) (a,<c>) (c,<f>) (d,<e>) (d,<g>) (d,<h>) -> (a,<b,c>) (b,<a>) (c,<f>)
    (d,<e,g,h>)".

    Edges are key pairs here, so that the sets merge without ever being one value.
    """
    case = cases["product_bundling_edges"]
    trees = []
    for part in (case["input"][:3], case["input"][3:], case["input"][::2]):  # one edge is seen twice
        tree = CompressedBufferTree(["from", "to"], {"n": ("count", None)})
        tree.insert(pa.record_batch({"from": [a for a, _ in part], "to": [b for _, b in part]}))
        trees.append(encode_partial({"edges": tree.partial()}))
    adjacency: dict[str, list[str]] = {}
    for row in finish(decode_partial(merge_partials(trees)))["edges"].sort_by("to").to_pylist():
        adjacency.setdefault(row["from"], []).append(row["to"])
    assert adjacency == case["expected"]


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


def test_a_sliding_window_of_the_product_bundling_kind() -> None:
    """1: "iteratively updating the graph over some sliding time window"; here by the inverse of sum."""

    class Clicks:
        name = "main"
        keys = ("key",)
        aggregates: ClassVar = {"value": ("sum", "v")}

    panes = Panes([Clicks()], 15, 5, slide_panes_min=3)
    seconds = np.arange(30)
    panes.insert("main", seconds // panes.pane_us, pa.record_batch({"key": ["a"] * 30, "v": seconds}))
    for index in range(4):
        window = panes.window(index)
        assert window is not None
        assert as_dict(finish(window)["main"]) == {"a": sum(range(index * 5, index * 5 + 15))}
