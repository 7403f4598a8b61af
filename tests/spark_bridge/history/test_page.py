"""The table of engines in docs/spark.md is what passes: a query more, or one that fails, changes it."""

from __future__ import annotations

import pytest

from tests.compat.cases import NO_DATA, PEERS
from tests.spark_bridge.history import page, test_peers, test_reference


@pytest.mark.skipif(not PEERS.is_dir(), reason=NO_DATA)
def test_the_table_is_of_all_queries_and_none_fails() -> None:
    names = {
        "reference": set(test_reference.statements()),
        "peers": {case.name for case, _ in test_peers.cases()},
    }
    wanted = {suite: page.expected(each, each - set(page.left_out(suite))) for suite, each in names.items()}
    assert page.written(page.PAGE.read_text()) == page.table(wanted)


def test_what_fails_is_in_the_table_by_name() -> None:
    outcomes = page.expected({"q0_0", "q2_0"}, {"q0_0"})
    outcomes["Spark"]["q0_0"] = "failing"
    shown = page.table({"reference": outcomes})
    assert "| 2 | 2 passed | 2 passed | 1 passed, 1 not run | 1 passed, 1 failing |" in shown
    assert "| Spark | 1 | failing: q0_0 |" in shown
    assert "| four agents | 1 | failing: q2_0 was not asked |" in shown
