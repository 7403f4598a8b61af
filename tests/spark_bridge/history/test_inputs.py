"""Cutting files for tasks loses no line and reads none twice; inputs of every kind give the same rows."""

from __future__ import annotations

import gzip
import json
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from elfmesh import spark_bridge
from elfmesh.cli import entry
from elfmesh.errors import DataError, ElfError, QueryError, UsageError
from elfmesh.spark_bridge.history.inputs import HistoryInput, files_of, given_inputs, pieces_of
from elfmesh.spark_bridge.history.plan import Task, unpack_error
from elfmesh.spark_bridge.history.share import contribute
from tests.spark_bridge.history.engines import Asked, by_run, by_shares

COUNT = "SELECT k, count(*) AS n, sum(x) AS s FROM log GROUP BY k"


def inputs(path: Path, format: str = "json", **settings: str) -> dict[str, HistoryInput]:
    return given_inputs({"log": {"path": str(path), "format": format, **settings}})


@pytest.mark.parametrize("end", ["\n", ""])
@pytest.mark.parametrize("split_bytes", [1, 7, 64, 1000])
def test_every_line_is_in_one_piece(split_bytes: int, end: str, tmp_path: Path) -> None:
    rng = random.Random(split_bytes)
    lines = [json.dumps({"k": "k" * rng.randrange(60), "x": at}) for at in range(40)]
    log = tmp_path / "log.ndjson"
    log.write_text("\n".join(lines) + end)
    each = Asked("SELECT count(*) AS n, sum(x) AS s, count(DISTINCT k) AS d FROM log", inputs(log))
    assert by_shares(each, split_bytes) == by_run(each)


@pytest.mark.parametrize(
    ("format", "head", "line"),
    [
        ("csv", "k,x\n", "a,{}\n"),
        ("auto", "k,x,y\n", "a,{},1\n"),
        ("json", "", '{{"k": "b", "x": {}}}\n'),
        ("logfmt", "", "k=c x={} level=info\n"),
        ("csv:k,x", "", "a,{}\n"),
    ],
)
def test_a_format_is_known_in_the_middle_of_a_file(format: str, head: str, line: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(head + "".join(line.format(at) for at in range(60)))
    each = Asked(COUNT.replace("sum(x)", "sum(CAST(x AS BIGINT))"), inputs(log, format))
    assert by_shares(each, 100) == by_run(each)


def test_records_of_several_lines_are_not_cut(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("a 1\n  more\n  more\n" * 50)
    (only,) = pieces_of(inputs(log, "regex:(?P<k>.*)", multiline="indent")["log"], "h", 20)
    assert only.stop is None


def test_a_compressed_file_is_one_piece(tmp_path: Path) -> None:
    log = tmp_path / "log.gz"
    log.write_bytes(gzip.compress(b'{"k": "a", "x": 1}\n' * 100))
    assert len(list(pieces_of(inputs(log)["log"], "h", 10))) == 1
    each = Asked(COUNT, inputs(log))
    assert by_shares(each) == by_run(each) == [[(0, [{"k": "a", "n": 100, "s": 100}])]]


def test_the_first_records_settle_types_for_all_pieces(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text('{"k": "a", "x": 1}\n' * 20 + '{"k": 7, "x": 1.5}\n' * 20)
    each = Asked(COUNT, inputs(log))
    assert by_shares(each, 64) == by_run(each)


@pytest.mark.parametrize(
    ("format", "text"), [("csv", "k,x\na,1\n"), ("auto", "k,x\na,1\nb,2\n"), ("w3c", "#Fields: k x\na 1\n")]
)
@pytest.mark.parametrize("cut", [0, 1], ids=["from the header", "behind it"])
def test_raw_lines_that_need_a_header_are_refused(format: str, text: str, cut: int) -> None:
    """An archive is read in parts: behind the first, no part would have such lines."""
    lines = text.splitlines()[cut:]
    rows = pa.table({"_raw": lines, "_path": ["log"] * len(lines), "_host": ["h"] * len(lines)})
    each = given_inputs({"log": ("out", f"parquet:{format}")})
    task = Task(COUNT, 0, "query", "h", inputs=each)
    found = contribute(task, (), (("log", batch) for batch in rows.to_batches()))
    (reported,) = [row["error"] for batch in found for row in batch.to_pylist()]
    message = "cannot be told from its first lines" if format == "auto" and cut else "without their header"
    with pytest.raises(ElfError, match=message):
        raise unpack_error(reported)


def test_a_directory_is_its_files(tmp_path: Path) -> None:
    for name in ("b.log", "a.log", "_SUCCESS", ".hidden", "deep/c.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}\n")
    names = [Path(path).name for path in files_of(str(tmp_path))]
    assert names == ["a.log", "b.log", "c.log"]


def test_an_error_in_a_task_is_the_error(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text('{"k": "a", "x": [1]}\n')
    with pytest.raises(QueryError, match="has no column nothing"):
        by_shares(Asked("SELECT nothing FROM log GROUP BY nothing", inputs(log, "csv:k,x")))
    damaged = tmp_path / "log.gz"
    damaged.write_bytes(gzip.compress(b"{}\n" * 1000)[:-9])
    with pytest.raises(DataError, match=re.escape(str(damaged))):
        by_shares(Asked(COUNT, inputs(damaged)))
    with pytest.raises(UsageError, match="the stream other"):
        by_shares(Asked("SELECT a.k FROM log a JOIN other b ON a.k = b.k", inputs(log)))


@pytest.mark.spark
@pytest.mark.slow
def test_tables_and_frames_are_streams_too(spark: Any, tmp_path: Path) -> None:
    rows = [{"k": "ab"[at % 2], "x": at, "user": {"id": at % 3}} for at in range(20)]
    (tmp_path / "log.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "log.parquet")
    text = "SELECT user.id AS id, sum(x) AS s, count(missing) AS m FROM log GROUP BY user.id ORDER BY s"
    (wanted,) = by_run(Asked(text, inputs(tmp_path / "log.json")))
    for given in (
        (str(tmp_path / "log.parquet"), "parquet"),
        spark.createDataFrame(pa.Table.from_pylist(rows)),
    ):
        found = spark_bridge.sql(spark, text, {"log": given})
        assert found.columns == ["interval_index", "interval_start", "interval_end", "id", "s", "m"]
        assert [row.asDict() for row in found.select("id", "s", "m").collect()] == wanted[0][1]
    with pytest.raises(DataError, match="interval_start"):
        spark_bridge.sql(spark, "SELECT x AS interval_start FROM log", {"log": given})


ACCESS = '10.0.0.{} - - [17/May/2015:10:05:{:02} +0000] "GET /{} HTTP/1.1" 200 {} "-" "curl/8"\n'


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("what", ["raw", "parsed"])
def test_an_archive_is_the_log_it_was_made_of(what: str, spark: Any, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    lines = [ACCESS.format(at % 3, at, "ab"[at % 2], at * 10) for at in range(30)]
    log.write_text("".join(lines[:20]) + "no access line\n" + "".join(lines[20:]))
    config = tmp_path / "agent.toml"
    config.write_text(
        f'data_dir = "{tmp_path}/data"\n[streams.access]\npath = "{log}"\nformat = "combined"\n'
        f'[streams.access.archive]\npath = "{tmp_path}/archive"\nwhat = "{what}"\n'
    )
    assert entry.run(["archive", "-c", str(config)]) == 0
    text = """SELECT path, count(*) AS n, sum(bytes) AS b, min(_source) AS s FROM access
GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), path"""
    given = given_inputs({"access": (str(log), "combined")})
    archive = (f"{tmp_path}/archive/access", "parquet:combined" if what == "raw" else "parquet")
    if what == "parsed":
        text = text.replace(", min(_source) AS s", "")
    (wanted,) = by_run(Asked(text, given))
    found = spark_bridge.sql(spark, text, {"access": archive})
    rows = [row.asDict() for row in found.collect()]
    ours = [{"interval_index": index, **row} for index, rows in wanted for row in rows]
    assert [{name: row[name] for name in ours[0]} for row in rows] == ours
