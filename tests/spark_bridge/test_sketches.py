"""Finished sketches are what Spark's own sketch functions read and merge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.laws.sketches import hll_estimates

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def sketch(kind: str, values: pa.Array) -> bytes:
    law = LAWS[kind]
    state = law.lift(values, np.zeros(len(values), np.int64), 1)
    return bytes(law.finish(state, 1)[0].as_py())


def frame(spark: Any, sketches: list[bytes]) -> Any:
    return spark.createDataFrame([(bytearray(held),) for held in sketches], "s binary")


def test_spark_reads_and_unites_our_hll_with_its_own(spark: Any) -> None:
    parts = [sketch("hll", pa.array(range(low, high))) for low, high in ((0, 5), (3, 200), (100, 5000))]
    whole = sketch("hll", pa.array(range(5000)))
    estimate = round(hll_estimates(pa.array([whole]))[0].as_py())
    union = "hll_sketch_estimate(hll_union_agg(s)) AS e"
    assert frame(spark, parts).selectExpr(union).collect()[0].e == estimate
    (theirs,) = spark.range(5000).selectExpr("hll_sketch_agg(id, 12) AS s").collect()
    assert bytes(theirs.s)[40:] == whole[40:]  # the registers
    assert frame(spark, [whole, bytes(theirs.s)]).selectExpr(union).collect()[0].e == estimate
    words = [f"word {number}" for number in range(300)]
    text = spark.createDataFrame([(word,) for word in words], "x string")
    (theirs,) = text.selectExpr("hll_sketch_agg(x, 12) AS s").collect()
    both = frame(spark, [bytes(theirs.s), sketch("hll", pa.array(words))])
    assert both.selectExpr(union).collect()[0].e == 300


def test_spark_reads_and_merges_our_kll(spark: Any) -> None:
    if not spark.catalog.functionExists("kll_merge_agg_double"):
        pytest.skip("this Spark has no KLL functions; they came with 4.1")
    sketches = [sketch("kll", pa.array(np.arange(part, 10_000.0, 4))) for part in range(4)]
    merged = frame(spark, sketches).selectExpr("kll_merge_agg_double(s) AS s")
    row = merged.selectExpr(
        "kll_sketch_get_n_double(s) AS n", "kll_sketch_get_quantile_double(s, 0.5D) AS q"
    ).collect()[0]
    assert row.n == 10_000
    assert abs(row.q / 10_000 - 0.5) < 0.02
