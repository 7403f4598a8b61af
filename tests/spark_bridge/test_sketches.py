"""Finished sketches are what Spark's own sketch functions read and merge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.laws.sketches import hll_estimates, kll_held, theta_held
from tests.ql.conftest import run

pytestmark = [pytest.mark.spark]


SPARKS = {
    "hll": "hll_sketch_agg(id)",
    "theta": "theta_sketch_agg(id)",
    "kll": "kll_sketch_agg_double(double(id))",
}
UNIONS = {"hll": "hll_union_agg", "theta": "theta_union_agg", "kll": "kll_merge_agg_double"}


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


def test_unions_of_sparks_sketches_are_sparks(spark: Any) -> None:
    """Of the same bytes: what Spark made of overlapping numbers, merged there and here."""
    from pyspark.sql import functions

    made = spark.range(30_000).selectExpr("id", "explode(array(id % 5, id % 3)) AS part").groupBy("part")
    known = {
        name: call for name, call in SPARKS.items() if spark.catalog.functionExists(call.partition("(")[0])
    }
    held = made.agg(*(functions.expr(call).alias(name) for name, call in known.items()))
    rows = [row.asDict() for row in held.collect()]
    unions = [f"{UNIONS[column]}({column}) AS {column}" for column in known]
    (theirs,) = held.selectExpr(*unions).collect()
    for column in known:
        given = pa.table({column: pa.array([bytes(row[column]) for row in rows], pa.binary())})
        ((ours,),) = run(f"SELECT {UNIONS[column]}({column}) AS x FROM t", given)[0].to_pydict().values()
        if column == "hll":
            assert ours[40:] == bytes(theirs.hll)[40:]
        elif column == "theta":
            assert theta_held(ours)[1] == theta_held(bytes(theirs.theta))[1]
            assert theta_held(ours)[0].tolist() == theta_held(bytes(theirs.theta))[0].tolist()
        else:
            one, other = kll_held(ours), kll_held(bytes(theirs.kll))
            assert (one.count, one.least, one.greatest) == (other.count, other.least, other.greatest)
    torn = frame(spark, [bytes(rows[0]["hll"])[:9]])
    with pytest.raises(Exception, match="HLL_INVALID_INPUT_SKETCH_BUFFER"):  # null here: an interval goes on
        torn.selectExpr("hll_union_agg(s)").collect()


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
