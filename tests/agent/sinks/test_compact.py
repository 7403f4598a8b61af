"""Compaction of a sink's files: the same rows before, while, after, and whatever step it is killed at."""

from __future__ import annotations

import asyncio
import json
import threading
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from elfmesh.agent import failpoints
from elfmesh.agent.cli.compact import compact_command
from elfmesh.agent.sinks.base import Item, Position
from elfmesh.agent.sinks.commits import Commits
from elfmesh.agent.sinks.compact import compact
from elfmesh.agent.sinks.config import ParquetSink
from elfmesh.agent.sinks.parquet import ParquetFiles
from elfmesh.errors import DataError, RuntimeFailure
from tests.agent.sinks.rig import LOG, Died, die, item

DAY_US = 86_400_000_000
START_US = 1_431_820_800_000_000


async def filled(root: Path, days: int = 3, each: int = 5) -> ParquetFiles:
    """A sink with so many intervals on each of some days."""
    out = ParquetFiles("test", ParquetSink(jobs=("*",), path=str(root)))
    for index in range(days * each):
        start = START_US + index // each * DAY_US + index % each * 1_000_000
        assert await out.write(LOG, item(index, start_us=start, end_us=start + 1_000_000))
    return out


async def _write(root: Path, late: Item) -> None:
    """As another process does."""
    out = ParquetFiles("other", ParquetSink(jobs=("*",), path=str(root)))
    assert await out.write(LOG, late)
    await out.close()


def rows(root: Path) -> list[dict[str, Any]]:
    found = ds.dataset(root / "shop.top", partitioning="hive", format="parquet").to_table()
    return sorted(found.to_pylist(), key=lambda row: (row["interval_index"], row["path"]))


def files(root: Path) -> dict[str, int]:
    return {path.parent.name: len(list(path.parent.glob("*.parquet"))) for path in root.rglob("*.parquet")}


def staged(root: Path) -> list[Path]:
    return list(root.rglob("_compact-*"))


async def test_old_days_become_one_file_and_the_sink_goes_on(tmp_path: Path) -> None:
    out = await filled(tmp_path)
    before = rows(tmp_path)
    assert [(done.day, done.files, done.into, done.rows) for done in compact(tmp_path, dry_run=True)] == [
        ("2015-05-17", 5, 1, 10),
        ("2015-05-18", 5, 1, 10),
    ]
    assert set(files(tmp_path).values()) == {5}
    result = CliRunner().invoke(compact_command, [str(tmp_path), "--job", "shop/top"])
    assert result.exit_code == 0, result.output
    assert [json.loads(line)["into"] for line in result.output.splitlines()] == [1, 1]
    assert sorted(files(tmp_path).values()) == [1, 1, 5]
    assert rows(tmp_path) == before
    assert list(compact(tmp_path)) == [], "what is done is not done again"
    assert await out.position(LOG) == Position(15, 1)
    assert await out.write(LOG, item(15, start_us=START_US + 3 * DAY_US, end_us=START_US + 3 * DAY_US + 1))
    again = Commits(tmp_path / "shop.top" / "incarnation=1a2b")
    assert again.position == Position(16, 1)
    (path,) = (tmp_path / "shop.top/incarnation=1a2b/interval_date=2015-05-17").glob("*.parquet")
    said = json.loads(pq.read_schema(path).metadata[b"elf.records"])
    assert (path.stem, [each["interval"]["index"] for each in said]) == ("0-4", [0, 1, 2, 3, 4])


@pytest.mark.parametrize("place", ["files.staged", "files.swapped", "files.named"])
async def test_a_kill_at_any_step_leaves_each_row_once(tmp_path: Path, place: str) -> None:
    out = await filled(tmp_path, days=4)
    before = rows(tmp_path)
    for nth in (1, 2):
        with failpoints.armed(place, die, n=nth), pytest.raises(Died):
            list(compact(tmp_path))
        assert rows(tmp_path) == before
    list(compact(tmp_path))
    assert rows(tmp_path) == before
    assert sorted(files(tmp_path).values()) == [1, 1, 1, 5]
    assert not staged(tmp_path)
    log = tmp_path / "shop.top/incarnation=1a2b/_commits/00000001.jsonl"
    said = [json.loads(line) for line in log.read_text().splitlines()]
    assert {each["compacted"]["day"] for each in said if "compacted" in each} == {
        f"2015-05-{day}" for day in (17, 18, 19)
    }
    assert await out.position(LOG) == Position(20, 1)


async def test_who_reads_meanwhile_sees_each_row_once(tmp_path: Path) -> None:
    await filled(tmp_path, days=6)
    done, seen = threading.Event(), []

    def read() -> None:
        while not done.is_set():
            try:
                seen.append(len(rows(tmp_path)))
            except FileNotFoundError:  # listed before, opened after: such a reader is told, and reads again
                continue

    reader = threading.Thread(target=read)
    reader.start()
    list(compact(tmp_path))
    done.set()
    reader.join()
    assert set(seen) <= {60}
    assert len(rows(tmp_path)) == 60


async def test_only_days_before_a_date_and_never_the_newest(tmp_path: Path) -> None:
    await filled(tmp_path)
    assert [each.day for each in compact(tmp_path, before=date(2015, 5, 18))] == ["2015-05-17"]
    assert sorted(files(tmp_path).values()) == [1, 5, 5]


async def test_what_does_not_fit_together_stays_as_it_is(tmp_path: Path) -> None:
    out = await filled(tmp_path, days=1, each=1)
    other = pa.table({"path": pa.array([[1]]), "hits": [1]})
    assert await out.write(LOG, item(1, other, start_us=START_US + 1, end_us=START_US + 2))
    assert await out.write(LOG, item(2, start_us=START_US + DAY_US, end_us=START_US + DAY_US + 1))
    with pytest.raises(DataError, match="columns of different types"):
        list(compact(tmp_path))
    assert files(tmp_path)["interval_date=2015-05-17"] == 2


async def test_a_day_that_is_written_to_meanwhile_stays_as_it_is(tmp_path: Path) -> None:
    out = await filled(tmp_path, days=1)
    midnight = START_US + DAY_US
    shown = item(6, start_us=midnight, end_us=midnight + 1, state="TENTATIVE", rev=1)
    assert await out.write(LOG, shown)
    last = item(5, start_us=midnight - 1, end_us=midnight)

    def write() -> None:
        writer = threading.Thread(target=lambda: asyncio.run(_write(tmp_path, last)))
        writer.start()
        writer.join()

    with failpoints.armed("files.staged", write):
        assert list(compact(tmp_path)) == []
    assert not staged(tmp_path)
    assert {row["interval_index"] for row in rows(tmp_path)} == set(range(7))
    assert [done.files for done in compact(tmp_path)] == [6]
    assert {row["interval_index"] for row in rows(tmp_path)} == set(range(7))


async def test_two_compactions_do_not_clear_each_other_away(tmp_path: Path) -> None:
    await filled(tmp_path)
    before = rows(tmp_path)
    other = compact(tmp_path)
    next(other)
    with pytest.raises(RuntimeFailure, match="another process compacts this"):
        list(compact(tmp_path))
    assert len(list(other)) == 1
    assert rows(tmp_path) == before


def test_a_directory_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure, match="there are no results of jobs"):
        list(compact(tmp_path))


async def test_duckdb_reads_what_there_is_before_and_after(tmp_path: Path) -> None:
    import duckdb

    await filled(tmp_path)
    query = (
        "SELECT count(*), count(DISTINCT interval_index), sum(hits), min(interval_date)::VARCHAR"
        f" FROM read_parquet('{tmp_path}/shop.top/**/*.parquet', hive_partitioning = true)"
    )
    before = duckdb.sql(query).fetchall()
    list(compact(tmp_path))
    assert duckdb.sql(query).fetchall() == before == [(30, 15, 2 * sum(range(15)), "2015-05-17")]
