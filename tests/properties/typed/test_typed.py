"""Random statements over typed columns are answered as a real Spark answers them; kept ones stay right."""

from __future__ import annotations

from typing import Any

import pytest

from tests.exhaustive import few
from tests.properties.typed import kept
from tests.properties.typed.hunting import Hunt
from tests.spark_tests import long_spark

SEEDS = 3
"""Of some 120 statements each."""


@long_spark
@pytest.mark.parametrize("block", few(range(4), 2, 0))
def test_random_statements_are_answered_as_spark_does_or_refused(spark: Any, block: int) -> None:
    hunt = Hunt(spark)
    for seed in range(10_000 + block * SEEDS, 10_000 + (block + 1) * SEEDS):
        hunt.seed(seed)
    assert not hunt.findings, "\n".join(map(str, hunt.findings))
    assert hunt.compared > 50 * SEEDS


@pytest.mark.parametrize("case", [pytest.param(each, id=f"{at}") for at, each in enumerate(kept.cases())])
def test_what_spark_answered_once_is_answered(case: kept.Case) -> None:
    assert kept.wrong(case) == "", case["why"]
