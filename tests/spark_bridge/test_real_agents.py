"""The bridge over real agents: what Spark reads is what the API says and what one process computes."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from elfmesh import spark_bridge
from elfmesh.cli.demo.traffic import ShopTraffic, write_bulk
from elfmesh.local.embedded import answers
from tests.e2e.fleet import Fleet, eventually
from tests.patience import PATIENCE_S
from tests.spark_bridge.supervisor import Supervised
from tests.spark_tests import long_spark

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
BEGIN = 1_767_225_600_000_000
SECOND = 1_000_000
LAST = BEGIN // (30 * SECOND) + 3
"""Index of the last interval of 30 s that closes: the logs are two minutes and three seconds long."""

TYPED = """CREATE JOB shop.typed AS
SELECT directory, COUNT(*) AS n, SUM(clicks_count) AS s, AVG(clicks_count) AS mean, MIN(product) AS least,
       MAX(clicks_count) > 2 AS truth,
       MIN(CAST(ts AS TIMESTAMP)) AS first, CAST(MIN(CAST(ts AS TIMESTAMP)) AS DATE) AS day,
       MAX(no_such_field) AS nothing,
       CASE WHEN directory = 'Books' THEN NULL ELSE LENGTH(directory) END AS some
FROM clicks GROUP BY TUMBLE(ts, INTERVAL '30' SECOND), directory ORDER BY directory"""

KINDS = "SELECT kind, COUNT(*) AS n FROM clicks GROUP BY TUMBLE(ts, INTERVAL '30' SECOND), kind"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        fleet.start(3, stream="clicks", options=",format=json,idle=1 h", extra=("--label", "role=web"))
        traffic = {agent: ShopTraffic(agent.number) for agent in fleet}
        for agent in fleet:
            write_bulk(
                fleet.log(agent.number, "clicks"), 3_076, traffic[agent], start_us=BEGIN, rate_per_s=25
            )
        eventually(
            lambda: len(fleet[0].get("/v1/streams")["streams"][0]["agents"]) == 3, what="the third agent"
        )
        yield fleet


Apply = Callable[[str, str], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def apply(fleet: Fleet) -> Apply:
    def submit(job: str, text: str) -> list[dict[str, Any]]:
        """Apply a job over the logs as they are; its results once the last interval has closed."""
        assert fleet[1].apply(text)["expected"] == 3
        eventually(
            lambda: [r for r in fleet[2].results(job) if r["interval"]["index"] >= LAST],
            what=f"the last interval of {job}",
        )
        published: list[dict[str, Any]] = fleet[0].results(job)
        return published

    return submit


def one_process(fleet: Fleet, text: str, last: int = LAST) -> list[tuple[Any, ...]]:
    paths = [str(fleet.log(agent.number, "clicks")) for agent in fleet]
    return [
        (result.record.index, *row.values())
        for result in answers(text, paths, format="json")
        for row in result.table.to_pylist()
        if result.record.index <= last
    ]


def plain(value: Any) -> Any:
    """Spark's local time without a zone back to UTC, as Arrow gives it."""
    return value.astimezone(dt.UTC) if isinstance(value, dt.datetime) else value


def test_a_dataframe_holds_what_one_process_computes(spark: Any, fleet: Fleet, apply: Apply) -> None:
    text = (ROOT / "examples/shop/micro_promotion.elfql").read_text()
    published = apply("shop/micro_promotion", text)
    frame = spark_bridge.results(spark, "shop/micro_promotion", api=fleet[2].api, numPartitions=2)
    rows = [(row.interval_index, row["product"], row.clicks) for row in frame.collect()]
    assert sorted(rows) == sorted(one_process(fleet, text))
    assert len(rows) == sum(len(result["rows"]) for result in published) == 40
    heads = frame.select("state", "completeness").distinct().collect()
    assert [tuple(head) for head in heads] == [("FINAL", 1.0)]


def test_the_guides_python_runs_as_shown(
    spark: Any,
    fleet: Fleet,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/guide.md").read_text(), re.M | re.S)
    monkeypatch.setattr(spark_bridge, "local_session", lambda: spark)
    (tmp_path / "web1.ndjson").symlink_to(fleet.log(0, "clicks"))
    monkeypatch.chdir(tmp_path)
    for code in blocks:
        exec(compile(code.replace("127.0.0.1:7401", fleet[0].api), "guide.md", "exec"), {})
        assert "Angry Birds" in capfd.readouterr().out
    assert len(blocks) == 2


def test_every_type_of_the_language_arrives(spark: Any, fleet: Fleet, apply: Apply) -> None:
    apply("shop/typed", TYPED)
    frame = spark_bridge.results(spark, "shop/typed", api=fleet[0].api)
    types = dict(frame.dtypes)
    assert {name: types[name] for name in types if name not in frame.columns[:6]} == {
        "directory": "string",
        "n": "bigint",
        "s": "bigint",
        "mean": "double",
        "least": "string",
        "truth": "boolean",
        "first": "timestamp",
        "day": "date",
        "nothing": "string",
        "some": "bigint",
    }
    rows = [(row.interval_index, *map(plain, row[6:])) for row in frame.collect()]
    assert sorted(rows, key=lambda row: row[:2]) == one_process(fleet, TYPED)
    assert {row[-2] for row in rows} == {None}
    assert {row[-1] for row in rows if row[1] == "Books"} == {None}


@long_spark
def test_a_stream_goes_on_where_its_checkpoint_ended(
    spark: Any, fleet: Fleet, apply: Apply, tmp_path: Path
) -> None:
    text = "CREATE JOB shop.streamed AS " + KINDS
    apply("shop/streamed", text)
    got: dict[int, list[tuple[Any, ...]]] = {}

    def sink(frame: Any, batch: int) -> None:
        got[batch] = sorted((row.interval_index, row["kind"], row["n"]) for row in frame.collect())

    def read() -> None:
        source = spark.readStream.format("elf").option("job", "shop/streamed").option("api", fleet[0].api)
        source = source.option("startingInterval", "earliest").option("maxIntervalsPerTrigger", 3)
        writer = source.load().writeStream.foreachBatch(sink).trigger(availableNow=True)
        query = Supervised(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start)
        assert query.awaitTermination(PATIENCE_S)

    read()
    before = len(got)
    for agent in fleet:
        log = fleet.log(agent.number, "clicks")
        begin = BEGIN + 3_076 * SECOND // 25
        write_bulk(log, 1_500, ShopTraffic(agent.number + 10), start_us=begin, rate_per_s=25)
    eventually(
        lambda: [r for r in fleet[0].results("shop/streamed") if r["interval"]["index"] >= LAST + 2],
        what="the appended intervals",
    )
    read()
    assert len(got) > before > 1
    rows = [row for batch in sorted(got) for row in got[batch]]
    assert sorted(rows) == sorted(one_process(fleet, text, LAST + 2))


@long_spark
def test_a_job_deleted_and_created_again_stops_its_old_stream(
    spark: Any, fleet: Fleet, apply: Apply, tmp_path: Path
) -> None:
    text = "CREATE JOB shop.again AS " + KINDS
    apply("shop/again", text)

    def read() -> Supervised:
        source = spark.readStream.format("elf").option("job", "shop/again").option("api", fleet[0].api)
        writer = source.option("startingInterval", "earliest").load().writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        return Supervised(writer.trigger(availableNow=True).start)

    assert read().awaitTermination(PATIENCE_S)
    fleet[0].ask("DELETE", "/v1/jobs/shop/again")
    with pytest.raises(Exception, match="ELF_JOB_UNKNOWN"):
        spark_bridge.results(spark, "shop/again", api=fleet[0].api)
    apply("shop/again", text)
    with pytest.raises(Exception, match="ELF_JOB_RECREATED: job 'shop/again' was deleted and created again"):
        read().awaitTermination(PATIENCE_S)


PAO = """CREATE JOB shop.week KEEP PARTIALS AS
SELECT directory, COUNT(*) AS n, AVG(clicks_count) AS mean, approx_count_distinct(product) AS products,
       kll_sketch_agg_double(CAST(clicks_count AS DOUBLE)) AS middle, theta_sketch_agg(product) AS kinds
FROM clicks GROUP BY TUMBLE(ts, INTERVAL '30' SECOND), directory HAVING COUNT(*) > 1000000"""

EVERYTHING = """SELECT directory, COUNT(*) AS n, AVG(clicks_count) AS mean, COUNT(DISTINCT product) AS exact,
       hll_sketch_estimate(hll_sketch_agg(product)) AS products
FROM clicks WHERE ts < CAST('{until}' AS TIMESTAMP) GROUP BY directory"""


def test_intervals_roll_up_in_spark_without_the_raw_logs(spark: Any, fleet: Fleet, apply: Apply) -> None:
    assert all(not result["rows"] for result in apply("shop/week", PAO))  # HAVING: no interval shows a row
    frame = spark_bridge.results(spark, "shop/week", api=fleet[0].api, view="pao")
    frame = frame.where(f"interval_index <= {LAST}")
    assert dict(frame.dtypes)["products_hll"] == "binary"
    frame.createOrReplaceTempView("week")
    rolled = spark.sql(
        "SELECT directory, sum(n) AS n, sum(mean_sum) / sum(mean_count) AS mean,"
        " hll_sketch_estimate(hll_union_agg(products_hll)) AS products FROM week GROUP BY directory"
    )
    got = {row.directory: (row.n, row.mean, row.products) for row in rolled.collect()}
    until = dt.datetime.fromtimestamp((LAST + 1) * 30, dt.UTC).strftime("%Y-%m-%d %H:%M:%S")
    paths = [str(fleet.log(agent.number, "clicks")) for agent in fleet]
    (whole,) = answers(EVERYTHING.format(until=until), paths, format="json")
    rows = {row["directory"]: row for row in whole.table.to_pylist()}
    if spark.catalog.functionExists("theta_union_agg"):  # they came with Spark 4.1
        others = spark.sql(
            "SELECT directory, theta_sketch_estimate(theta_union_agg(kinds)) AS kinds,"
            " kll_sketch_get_n_double(kll_merge_agg_double(middle)) AS n FROM week GROUP BY directory"
        )
        for row in others.collect():  # fewer values than a theta keeps: it is exact
            assert (row.kinds, row.n) == (rows[row.directory]["exact"], rows[row.directory]["n"])
    assert {name: (row["n"], row["mean"], row["products"]) for name, row in rows.items()} == got
    assert all(abs(got[name][2] - row["exact"]) <= 0.05 * row["exact"] + 1 for name, row in rows.items())
    apply("shop/typed", TYPED)
    with pytest.raises(Exception, match="ELF_NO_PARTIALS: job 'shop/typed': this job keeps no partial"):
        spark_bridge.results(spark, "shop/typed", api=fleet[0].api, view="pao")
