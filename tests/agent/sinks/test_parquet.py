"""Parquet files: every interval once, whatever is killed, fenced, full or hostile; readable as they are."""

from __future__ import annotations

import errno
import hashlib
import json
import multiprocessing
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from elfmesh.agent.sinks.base import LostIntervals, Position, RecordFenced, RecordRefused, Unavailable
from elfmesh.agent.sinks.commits import Commits
from elfmesh.agent.sinks.config import ParquetSink
from elfmesh.agent.sinks.parquet import NO_DATE, ParquetFiles
from elfmesh.storage import failpoints
from tests.agent.sinks.rig import HOSTILE, LOG, UTC, Died, Following, Master, die, item, rows
from tests.patience import PATIENCE_S


def sink(tmp_path: Path) -> ParquetFiles:
    return ParquetFiles("test", ParquetSink(jobs=("*",), path=str(tmp_path / "out")))


def table(tmp_path: Path) -> pa.Table:
    return ds.dataset(tmp_path / "out" / "shop.top", partitioning="hive", format="parquet").to_table()


def commits(tmp_path: Path) -> list[dict[str, Any]]:
    files = sorted((tmp_path / "out" / "shop.top").rglob("*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def counts(tmp_path: Path) -> dict[int, int]:
    found: dict[int, int] = {}
    for index in table(tmp_path).column("interval_index").to_pylist():
        found[index] = found.get(index, 0) + 1
    return found


async def test_an_interval_is_a_file_that_holds_its_own_description(tmp_path: Path) -> None:
    out = sink(tmp_path)
    assert await out.position(LOG) is None
    assert await out.write(LOG, item(57))
    assert await out.position(LOG) == Position(58, 1)
    found = table(tmp_path).to_pylist()
    assert [(row["interval_index"], row["path"], row["hits"]) for row in found] == [
        (57, "/0", 57),
        (57, "/1", 57),
    ]
    assert found[0]["incarnation"] == "1a2b"
    assert str(found[0]["interval_date"]) == "2015-05-17"
    (commit,) = commits(tmp_path)
    path = tmp_path / "out" / "shop.top" / "incarnation=1a2b" / commit["file"]
    assert commit["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    reported = json.loads(pq.read_schema(path).metadata[b"elf.record"])
    assert (reported["state"], reported["interval"]["index"]) == ("FINAL", 57)


async def test_a_crash_anywhere_leaves_every_row_once(tmp_path: Path) -> None:
    master = Master(tmp_path / "log")
    master.append(*(item(index) for index in range(6)))
    for place in ("sink.write", "sink.written"):
        for nth in (1, 2):
            with failpoints.armed(f"{place}.parquet", die, n=nth), pytest.raises(Died):
                async with Following(sink(tmp_path), master) as following:
                    await following.until(lambda: False)
    async with Following(sink(tmp_path), master) as following:
        await following.until(lambda: following.progress.lag == 0 and following.progress.written)
    assert counts(tmp_path) == dict.fromkeys(range(6), 2)
    assert [each["interval"] for each in commits(tmp_path)] == list(range(6))


async def test_a_revision_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    out = sink(tmp_path)
    assert await out.write(LOG, item(1, state="TENTATIVE", rev=1))
    assert await out.write(LOG, item(1, rows(9, 3), state="TENTATIVE", rev=2))
    assert not await out.write(LOG, item(1, state="TENTATIVE", rev=2))
    assert counts(tmp_path) == {1: 3}
    assert await sink(tmp_path).position(LOG) is None
    assert await out.write(LOG, item(1, rows(0, 0), rev=3))
    assert not list((tmp_path / "out").rglob("*.parquet")), "the final revision has no rows"
    assert not await out.write(LOG, item(1, state="TENTATIVE", rev=9))
    assert await sink(tmp_path).position(LOG) == Position(2, 1)


async def test_a_master_that_wakes_is_refused(tmp_path: Path) -> None:
    out = sink(tmp_path)
    await out.write(LOG, item(1, epoch=5))
    await out.write(LOG, item(2, epoch=6, state="TENTATIVE", rev=1))
    with pytest.raises(RecordFenced):
        await out.write(LOG, item(2, epoch=4))
    with pytest.raises(RecordFenced):
        await out.write(LOG, item(2, epoch=5, state="TENTATIVE", rev=7))
    assert await out.write(LOG, item(2, epoch=5)), "what was closed before the newest master is final"
    assert counts(tmp_path) == {1: 2, 2: 2}


async def test_another_agent_goes_on_in_the_same_directory(tmp_path: Path) -> None:
    here, there = sink(tmp_path), sink(tmp_path)
    for index in range(6):
        one, other = (here, there) if index % 2 else (there, here)
        assert await one.write(LOG, item(index))
        assert not await other.write(LOG, item(index)), "both were told of it"
    assert counts(tmp_path) == dict.fromkeys(range(6), 2)
    assert len(commits(tmp_path)) == 6


def _hold(directory: Path, held: Any, release: Any) -> None:
    with Commits(directory).locked():
        held.set()
        release.wait(PATIENCE_S)


async def test_two_processes_never_write_at_once(tmp_path: Path) -> None:
    out = sink(tmp_path)
    await out.write(LOG, item(0))
    context = multiprocessing.get_context("forkserver")
    held, release = context.Event(), context.Event()
    directory = tmp_path / "out" / "shop.top" / "incarnation=1a2b"
    process = context.Process(target=_hold, args=(directory, held, release))
    process.start()
    assert held.wait(PATIENCE_S)
    with pytest.raises(Unavailable, match="another process"):
        await out.write(LOG, item(1))
    release.set()
    process.join()
    assert await out.write(LOG, item(1))


async def test_a_full_disk_makes_the_sink_wait_and_leaves_nothing_half(tmp_path: Path) -> None:
    master = Master(tmp_path / "log")
    master.append(*(item(index) for index in range(3)))

    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with failpoints.armed("sink.write.parquet", full, n=2):
        async with Following(sink(tmp_path), master) as following:
            await following.until(lambda: following.progress.problem)
            assert "No space left" in following.progress.problem
            assert following.progress.lag
            assert not list((tmp_path / "out").rglob(".*.new"))
            await following.until(lambda: not following.progress.problem and following.progress.lag == 0)
    assert counts(tmp_path) == dict.fromkeys(range(3), 2)
    assert following.progress.failures == 1


async def test_a_torn_commit_is_none(tmp_path: Path) -> None:
    await sink(tmp_path).write(LOG, item(0))
    (log,) = (tmp_path / "out").rglob("*.jsonl")
    with log.open("a") as file:
        file.write('{"interval": 1, "sta')
    assert await sink(tmp_path).position(LOG) == Position(1, 1)
    assert await sink(tmp_path).write(LOG, item(1))
    assert [each["interval"] for each in commits(tmp_path)] == [0, 1]


async def test_a_damaged_commit_is_reported_and_not_skipped(tmp_path: Path) -> None:
    out = sink(tmp_path)
    await out.write(LOG, item(0))
    await out.close()
    (log,) = (tmp_path / "out").rglob("*.jsonl")
    log.write_bytes(b'{"interval": "\xff\n')
    again = sink(tmp_path)
    with pytest.raises(Unavailable, match=r"00000001\.jsonl is damaged"):
        await again.position(LOG)
    await again.close()


async def test_losses_are_declared_once(tmp_path: Path) -> None:
    out = sink(tmp_path)
    await out.write(LOG, item(1))
    await out.declare(LOG, LostIntervals(2, 9, "gone"))
    await out.declare(LOG, LostIntervals(2, 9, "gone"))
    assert await sink(tmp_path).position(LOG) == Position(10, 1)
    assert commits(tmp_path)[1:] == [{"lost": [2, 9], "why": "gone"}]


async def test_hostile_values_come_back_as_they_were(tmp_path: Path) -> None:
    await sink(tmp_path).write(LOG, item(1, HOSTILE))
    found = table(tmp_path)
    as_utc = HOSTILE.set_column(5, "local", HOSTILE.column("local").cast(UTC))
    for name in HOSTILE.column_names:
        assert str(found.column(name).to_pylist()) == str(as_utc.column(name).to_pylist()), name


async def test_times_without_a_date_have_a_partition(tmp_path: Path) -> None:
    await sink(tmp_path).write(LOG, item(1, start_us=2**62, end_us=2**62))
    assert list((tmp_path / "out").rglob(f"interval_date={NO_DATE}/1.parquet"))


async def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordRefused, match=r"'state'.*AS"):
        await sink(tmp_path).write(LOG, item(1, pa.table({"State": ["x"]})))


@pytest.mark.spark
def test_spark_reads_the_directory(tmp_path: Path, spark: Any) -> None:
    import asyncio

    async def write() -> None:
        out = sink(tmp_path)
        await out.write(LOG, item(1, HOSTILE.drop_columns(["never"])))
        await out.write(LOG, item(2, HOSTILE.drop_columns(["never"])))

    asyncio.run(write())
    frame = spark.read.parquet(str(tmp_path / "out" / "shop.top"))
    assert frame.where("interval_index = 2").count() == 4
    row = frame.where("interval_index = 1 AND whole = 9223372036854775807").collect()[0]
    assert row["exact"] == HOSTILE.column("exact")[0].as_py()
    assert (row["sketch"], row["list"], row["incarnation"]) == (b"\x00\xff\x80", ["a\x00", None], "1a2b")


async def test_a_directory_that_is_removed_comes_back_with_all_that_the_log_has(tmp_path: Path) -> None:
    master = Master(tmp_path / "master")
    master.append(*(item(index) for index in range(3)))
    out = ParquetFiles("test", ParquetSink(jobs=("*",), path=str(tmp_path / "out")))
    async with Following(out, master) as following:
        await following.until(lambda: following.progress.written == 3)
        shutil.rmtree(tmp_path / "out")
        master.append(item(3))
        await following.until(lambda: following.progress.lag == 0 and following.progress.written > 3)
        assert not following.progress.problem
    found = [path.stem for path in (tmp_path / "out").glob("*/*/*/*.parquet")]
    assert sorted(found) == ["0", "1", "2", "3"]
