"""ELF (USENIX ATC 2014), section 2.1 and Figure 3: logs are reduced where they are written."""

from __future__ import annotations

from elfmesh.cbt import (
    decode_partial,
    encode_partial,
    finish,
    merge_partials,
)
from tests.paper.cases import CASES, as_dict, sums


def test_local_groupby() -> None:
    """2.1: "batches of logs are parsed as a map from product name (key) to the number of clicks (value), and
    groupby-aggregated like (a, 1), (b, 1), (a, 1), (b, 1), (b, 1) -> (a, 2), (b, 3)".
    """
    case = CASES["local_groupby"]
    assert as_dict(sums(case["input"]).flush()) == case["expected"]


def test_rollup_tree() -> None:
    """2.1: "progressively 'rolls up' and reduces those local key-value pairs ... from tree leaves are reduced
    as (a, 7), (b, 5), (c, 2) to the root".
    """
    case = CASES["rollup_tree"]
    leaves = [
        encode_partial({"main": sums([list(pair) for pair in leaf.items()]).partial()})
        for leaf in case["leaves"]
    ]
    for shape in ([leaves], [leaves[:2], leaves[2:]], [leaves[2:], leaves[:2][::-1]]):
        root = merge_partials([merge_partials(part) for part in shape])
        assert as_dict(finish(decode_partial(root))["main"]) == case["expected_root"]
