"""RESAMPLE gives the same rows in `elf run`, in shares, and on Spark, also across the end of an interval."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from elfmesh.spark_bridge.history.inputs import given_inputs
from tests.spark_bridge.history.engines import Asked, by_run, by_shares, by_spark

TEXT = """SELECT k, date_bin(INTERVAL '1' SECOND, ts) AS at, avg(v) AS v, max(w) AS w FROM log
GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), k, at
RESAMPLE at EVERY '1 s' PARTITION BY k FILL (v LINEAR OR PREVIOUS, w NEXT) MAX GAP '8 s' ORDER BY k, at"""


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    rng = random.Random(7)
    seconds = sorted(rng.uniform(0, 90) for _ in range(120))
    rows = [
        {"ts": 1_700_000_000 + at, "k": rng.choice("abc"), "v": rng.random(), "w": rng.choice([None, 1, 2])}
        for at in seconds
    ]
    (tmp_path / "log.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Asked(TEXT, given_inputs({"log": (str(tmp_path / "log.json"), "json")}))


def test_shares_give_the_rows_of_the_whole(asked: Asked) -> None:
    ours = by_run(asked)
    assert by_shares(asked) == ours
    assert sum(row["v"] is None for _, rows in ours[0] for row in rows) > 3
    assert sum(len(rows) for _, rows in ours[0]) > 250


@pytest.mark.spark
@pytest.mark.slow
def test_spark_gives_them_too(asked: Asked, spark: Any) -> None:
    assert by_spark(spark, asked) == by_run(asked)
