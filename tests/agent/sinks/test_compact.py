"""Compaction of a sink's files: the same rows before, while, after, and whatever step it is killed at."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import threading
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from elfmesh.agent.sinks.base import Position, SinkItem
from elfmesh.agent.sinks.commits import Commits
from elfmesh.agent.sinks.compact import compact
from elfmesh.agent.sinks.config import ParquetSink
from elfmesh.agent.sinks.parquet import ParquetFiles
from elfmesh.cli.host.compact import compact_command
from elfmesh.errors import DataError, RuntimeFailure
from elfmesh.storage import failpoints
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


async def _write(root: Path, late: SinkItem) -> None:
    """As another process does."""
    out = ParquetFiles("other", ParquetSink(jobs=("*",), path=str(root)))
    assert await out.write(LOG, late)
    await out.close()


def rows(root: Path) -> list[dict[str, Any]]:
    found = ds.dataset(root / "shop.top", partitioning="hive", format="parquet").to_table()
    return sorted(found.to_pylist(), key=lambda row: (row["interval_index"], row["path"]))


def files(root: Path) -> dict[str, int]:
    return {path.parent.name: len(list(path.parent.glob("*.parquet"))) for path in root.rglob("*.parquet")}


def everything(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in root.rglob("*.parquet")}


def staged(root: Path) -> list[Path]:
    beside = root.with_name(f".{root.name}.compact")
    return [*root.rglob("_compact-*"), *([beside] if beside.exists() else [])]


def counted(root: Path) -> tuple[int, int]:
    """Rows and intervals, as DuckDB finds them in all files below the sink's directory."""
    pattern = f"{root}/**/*.parquet"
    query = f"SELECT count(*), count(DISTINCT interval_index) FROM read_parquet('{pattern}', {OPTIONS})"
    with duckdb.connect() as connection:
        found = connection.execute(query).fetchone()
    assert found is not None
    return int(found[0]), int(found[1])


OPTIONS = "hive_partitioning = true, union_by_name = true"


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
    reported = json.loads(pq.read_schema(path).metadata[b"elf.records"])
    assert (path.stem, [each["interval"]["index"] for each in reported]) == ("0-4", [0, 1, 2, 3, 4])


STEPS = ("files.staged", "files.renamed", "files.swapped", "files.named")


@pytest.mark.parametrize("place", STEPS)
async def test_a_kill_at_any_step_leaves_each_row_once(tmp_path: Path, place: str) -> None:
    out = await filled(tmp_path, days=4)
    before = rows(tmp_path)
    for nth in (1, 2):
        with failpoints.armed(place, die, n=nth), pytest.raises(Died):
            list(compact(tmp_path))
        assert rows(tmp_path) == before
        assert counted(tmp_path) == (40, 20)
    list(compact(tmp_path))
    assert rows(tmp_path) == before
    assert sorted(files(tmp_path).values()) == [1, 1, 1, 5]
    assert not staged(tmp_path)
    log = tmp_path / "shop.top/incarnation=1a2b/_commits/00000001.jsonl"
    reported = [json.loads(line) for line in log.read_text().splitlines()]
    assert {each["compacted"]["day"] for each in reported if "compacted" in each} == {
        f"2015-05-{day}" for day in (17, 18, 19)
    }
    assert await out.position(LOG) == Position(20, 1)


@pytest.mark.parametrize("place", STEPS)
async def test_a_disk_that_is_full_at_any_step_leaves_each_row_once(tmp_path: Path, place: str) -> None:
    await filled(tmp_path)

    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with failpoints.armed(place, full):
        result = CliRunner().invoke(compact_command, [str(tmp_path)])
    assert isinstance(result.exception, RuntimeFailure)
    assert "No space left" in result.exception.message
    assert counted(tmp_path) == (30, 15)
    assert bool(staged(tmp_path)) == (place in STEPS[2:]), "the old files, out of sight"
    list(compact(tmp_path))
    assert counted(tmp_path) == (30, 15)
    assert sorted(files(tmp_path).values()) == [1, 1, 5]
    assert not staged(tmp_path)


def by_arrow(root: Path) -> int:
    return len(rows(root))


def by_duckdb(root: Path) -> int:
    try:
        return counted(root)[0]
    except duckdb.IOException as error:
        raise FileNotFoundError(str(error)) from None


@pytest.mark.parametrize("how", [by_arrow, by_duckdb])
async def test_a_reader_sees_each_row_once_during_compaction(
    tmp_path: Path, how: Callable[[Path], int]
) -> None:
    await filled(tmp_path, days=6)
    done, seen = threading.Event(), []

    def read() -> None:
        while not done.is_set():
            try:
                seen.append(how(tmp_path))
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


EXACT = pa.table({"x": pa.array([Decimal("12345678901234567.89")], pa.decimal128(19, 2))})
OTHERS = {
    "double": pa.table({"x": [0.5]}),
    "decimal": pa.table({"x": pa.array([Decimal("1.5")], pa.decimal128(20, 1))}),
    "integer": pa.table({"x": [1]}),
    "text": pa.table({"x": ["a"]}),
    "list": pa.table({"x": [[1]]}),
    "spelling": EXACT.rename_columns(["X"]),
    "more columns": EXACT.append_column("y", pa.array([1])),
}


@pytest.mark.parametrize("other", OTHERS)
async def test_only_files_of_the_same_columns_become_one_and_the_others_stay(
    tmp_path: Path, other: str
) -> None:
    out = ParquetFiles("test", ParquetSink(jobs=("*",), path=str(tmp_path)))
    for index in range(
        9
    ):  # on the first day, two of the old columns, three of the new ones and one of the old
        table = OTHERS[other] if 2 <= index < 5 else EXACT
        start = START_US + index + (DAY_US if index >= 6 else 0) + (DAY_US if index == 8 else 0)
        assert await out.write(LOG, item(index, table, start_us=start, end_us=start + 1))
    before = everything(tmp_path)
    assert [(done.files, done.into, done.rows) for done in compact(tmp_path)] == [(6, 3, 6), (2, 1, 2)]
    after = everything(tmp_path)
    found = {name: pq.ParquetFile(pa.BufferReader(data)).read() for name, data in after.items()}
    assert set(found) == {"0-1.parquet", "2-4.parquet", "5.parquet", "6-7.parquet", "8.parquet"}
    for name, (old, table) in {"0-1": ("0", EXACT), "2-4": ("2", OTHERS[other])}.items():
        merged = found[f"{name}.parquet"]
        alone = pq.ParquetFile(pa.BufferReader(before[f"{old}.parquet"])).read()
        assert merged.schema.equals(alone.schema, check_metadata=False)
        assert merged.select(table.column_names).slice(0, 1).to_pydict() == table.to_pydict()
    assert after["5.parquet"] == before["5.parquet"]
    assert counted(tmp_path) == (9, 9) if other not in ("text", "list") else True
    assert list(compact(tmp_path)) == [], "what cannot become one is left alone"


async def test_a_damaged_file_holds_up_its_own_day_alone(tmp_path: Path) -> None:
    await filled(tmp_path, days=4)
    damaged = tmp_path / "shop.top/incarnation=1a2b/interval_date=2015-05-17/2.parquet"
    data = bytearray(damaged.read_bytes())
    data[-6:-4] = b"xx"
    damaged.write_bytes(data)
    result = CliRunner().invoke(compact_command, [str(tmp_path)])
    assert isinstance(result.exception, DataError)
    assert "1 days were not compacted" in result.exception.message
    reported = [json.loads(line) for line in result.output.splitlines() if line.startswith("{")]
    assert [(each["day"], each["into"], "problem" in each) for each in reported] == [
        ("2015-05-17", 5, True),
        ("2015-05-18", 1, False),
        ("2015-05-19", 1, False),
    ]
    assert sorted(files(tmp_path).values()) == [1, 1, 5, 5]
    assert not staged(tmp_path)


async def test_a_place_that_cannot_be_used_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    await filled(tmp_path / "results")
    (tmp_path / ".results.compact").write_text("in the way")
    with pytest.raises(RuntimeFailure, match="cannot create files there") as caught:
        list(compact(tmp_path / "results"))
    assert "--staging" in (caught.value.hint or "")
    other = ["--staging", str(tmp_path / "other")]
    assert CliRunner().invoke(compact_command, [str(tmp_path / "results"), *other]).exit_code == 0
    assert sorted(files(tmp_path / "results").values()) == [1, 1, 5]
    assert not (tmp_path / "other").exists()


async def test_what_an_earlier_release_has_left_is_cleared_away(tmp_path: Path) -> None:
    await filled(tmp_path)
    left = tmp_path / "shop.top/incarnation=1a2b/_compact-2015-05-17-0123456789ab"
    left.mkdir()
    pq.write_table(pa.table({"x": [1]}), left / "0-4.parquet")
    list(compact(tmp_path))
    assert not staged(tmp_path)
    assert counted(tmp_path) == (30, 15)


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
    await filled(tmp_path)
    query = (
        "SELECT count(*), count(DISTINCT interval_index), sum(hits), min(interval_date)::VARCHAR"
        f" FROM read_parquet('{tmp_path}/shop.top/**/*.parquet', hive_partitioning = true)"
    )
    before = duckdb.sql(query).fetchall()
    list(compact(tmp_path))
    assert duckdb.sql(query).fetchall() == before == [(30, 15, 2 * sum(range(15)), "2015-05-17")]
