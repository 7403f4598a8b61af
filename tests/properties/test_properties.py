"""Random statements are answered as DuckDB answers them; what was found once stays right."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip(
    "duckdb", reason="the oracle of random statements is not installed: pip install -e '.[dev]'"
)

from tests.exhaustive import few
from tests.properties import fleets, kept
from tests.properties.hunting import Hunt
from tests.properties.nodes import listed, same, shrink, spare

SEEDS, SEEDS_EACH = 20, 6
"""Tests, and seeds in each: `make test` runs a few seeds only."""


@pytest.mark.parametrize("seed", [1005, 1008])
def test_random_statements_are_equal_or_refused_at_their_place(seed: int) -> None:
    hunt = Hunt()
    hunt.seed(seed)
    assert not hunt.findings, "\n".join(map(str, hunt.findings))


@pytest.mark.parametrize("block", few(range(SEEDS), 0, SEEDS // 2))
def test_many_random_statements_are_equal_or_refused_at_their_place(block: int) -> None:
    hunt = Hunt()
    for seed in range(10_000 + block * SEEDS_EACH, 10_000 + (block + 1) * SEEDS_EACH):
        hunt.seed(seed)
    assert not hunt.findings, "\n".join(map(str, hunt.findings))


@pytest.mark.parametrize("plan", few([(0, 2, 5), *((seed, 3, 9) for seed in range(12))], 1))
def test_random_jobs_on_agents_give_the_rows_of_one_process(
    plan: tuple[int, int, int], tmp_path: Path
) -> None:
    fleet = fleets.run(plan[0], tmp_path, jobs=plan[1], seconds=plan[2])
    assert not fleet.wrong, "\n".join(fleet.wrong)
    assert fleet.compared, "no interval was compared"


@pytest.mark.parametrize("case", [pytest.param(each, id=f"{at}") for at, each in enumerate(kept.cases())])
def test_what_was_found_once_stays_right(case: kept.Kept, tmp_path: Path) -> None:
    assert kept.wrong_with(case, tmp_path) == "", case.why


def test_a_failing_statement_is_made_smaller() -> None:
    inner = same("query", "SELECT b FROM t")
    items = listed(", ", [spare(same("", "a")), spare(same("", "bad")), spare(same("", "c"))])
    node = same("query", "SELECT {0} FROM ({1}) q", items, inner)
    assert (
        shrink(node, lambda less: "bad" in less.texts()[0]).texts()[0]
        == "SELECT bad FROM (SELECT b FROM t) q"
    )
