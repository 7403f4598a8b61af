from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from elfmesh.cli.demo.check import compare

LOGS = {name: Path(f"{name}.ndjson") for name in ("web1", "web2", "web3")}


def oracle(paths: Sequence[Path]) -> dict[int, list[dict[str, Any]]]:
    """Every log has one click in interval 5 and two in interval 6; 7 has only filtered records."""
    return {5: [{"clicks": len(paths)}], 6: [{"clicks": 2 * len(paths)}], 7: []}


def record(index: int, rows: list[dict[str, Any]], missing: Sequence[str] = ()) -> dict[str, Any]:
    return {
        "interval": {"index": index},
        "completeness": 1 - len(missing) / len(LOGS),
        "agents": {"missing": list(missing)},
        "rows": rows,
    }


GOOD = [record(5, [{"clicks": 3}]), record(6, [{"clicks": 4}], ["web2"]), record(7, [], ["web2"])]


def test_each_interval_is_compared_with_the_files_of_those_in_it() -> None:
    verdict = compare(GOOD, LOGS, oracle)
    assert verdict.equal
    assert verdict.compared == {(): 1, ("web2",): 2}
    assert verdict.rows == 2


@pytest.mark.parametrize(
    ("records", "reported"),
    [
        ([record(5, [{"clicks": 2}])], "interval 5, row 1: the agents say {'clicks': 2}, one process says"),
        ([record(6, [], ["web2"])], "interval 6 without web2, row 1: the agents say no such row"),
        (
            [record(5, [{"clicks": 3}, {"clicks": 1}])],
            "row 2: the agents say {'clicks': 1}, one process says no",
        ),
        ([record(7, [{"clicks": 1}])], "interval 7, row 1"),
        ([GOOD[0], GOOD[0]], "intervals came twice or out of order: [5, 5]"),
        ([record(4, []), record(6, [{"clicks": 6}])], "interval 5: not in the results"),
    ],
)
def test_what_differs_is_named(records: list[dict[str, Any]], reported: str) -> None:
    verdict = compare(records, LOGS, oracle)
    assert not verdict.equal
    assert reported in verdict.differences[0]


def test_a_complete_interval_that_names_a_missing_agent_is_wrong() -> None:
    lie = record(6, [{"clicks": 4}], ["web2"]) | {"completeness": 1.0}
    assert "complete, and yet web2 missing" in compare([lie], LOGS, oracle).differences[0]


def test_no_results_are_not_equal() -> None:
    assert not compare([], LOGS, oracle).equal
