"""The archive of a stream: every line once with its place, over kills, rotation, full disks and budgets."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from elfmesh.agent.archive.archive import Archive
from elfmesh.agent.archive.host import Archives
from elfmesh.agent.archive.rows import raw_rows
from elfmesh.agent.settings.config import config_of
from elfmesh.errors import ConfigError, RuntimeFailure, StorageError
from elfmesh.ingest.archive_settings import ArchiveConfig
from elfmesh.ingest.stream_formats import format_of
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.storage import failpoints
from tests.agent.archive.rig import Rig
from tests.agent.sinks.rig import Died, die
from tests.patience import PATIENCE_S


def test_files_of_an_archive_have_one_schema(tmp_path: Path) -> None:
    """A column of integers is none of doubles in a later file: Spark reads no such directory."""
    rig = Rig(tmp_path, what="parsed", columns=("a", "b"), file="1 kB")
    archive = rig.open()
    for lines in (['{"a": 1, "b": 1}', '{"a": 2, "b": 1.5}'], ['{"a": 2.5, "b": 2}'], ['{"a": 3}']):
        rig.write(*lines)
        while archive.step():
            pass
        archive.flush()
    archive.close()
    rig.write('{"a": 4.5}')
    rig.once()
    files = sorted((tmp_path / "out").rglob("*.parquet"))
    schemas = {pq.read_schema(path).remove_metadata().to_string() for path in files}
    assert len(files) == 4
    assert len(schemas) <= 2, "a column without any value is left out"
    rows = [(row["a"], row["b"], row["_raw"]) for row in rig.rows]
    kept = [(None, 2.0, '{"a": 2.5, "b": 2}'), (3, None, None), (None, None, '{"a": 4.5}')]
    assert rows == [(1, 1.0, None), (2, 1.5, None), *kept]


def test_a_kill_at_any_step_leaves_every_line_once_over_rotation(tmp_path: Path) -> None:
    places = ["archive.write", "archive.written"] * 3
    rig = Rig(tmp_path, file="1 kB")
    written = 0
    for turn, place in enumerate(places):
        lines = [json.dumps({"n": written + at, "pad": "x" * 80}) for at in range(30)]
        written += len(lines)
        rig.write(*lines)
        with failpoints.armed(place, die, n=turn % 2 + 1), pytest.raises(Died):
            rig.once()
        if turn % 2:
            rig.log.rename(tmp_path / f"app.log.{turn}")
    rig.write('{"n": -1}')
    assert rig.once()["gaps"] == 0
    numbers = Counter(json.loads(row["_raw"])["n"] for row in rig.rows)
    assert numbers == Counter([*range(written), -1])
    places_seen = {(row["_inode"], row["_generation"], row["_offset"]) for row in rig.rows}
    assert len(places_seen) == written + 1


def test_files_without_their_state_are_kept_and_named(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write('{"a": 1}')
    rig.once()
    (tmp_path / "out/app/host=h1/_state.json").unlink()
    with pytest.raises(StorageError, match="the archive has files, and its state is gone"):
        rig.open()
    assert len(rig.rows) == 1


def test_lines_that_come_between_an_empty_start_and_the_next_are_not_passed_over(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.read_from = "end"
    rig.open().close()
    rig.write('{"a": 1}')
    assert rig.once()["rows"] == 1


def test_a_state_that_is_older_than_its_files_is_refused_and_no_file_goes(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    state = tmp_path / "out/app/host=h1/_state.json"
    rig.write("one")
    rig.once()
    older = state.read_bytes()
    for line in ("two", "three"):
        rig.write(line)
        rig.once()
    state.write_bytes(older)
    with pytest.raises(StorageError, match="older than its files: it has written 1, and there is a number 3"):
        rig.open()
    assert [row["_raw"] for row in rig.rows] == ["one", "two", "three"]


def test_columns_keep_their_types_over_restarts(tmp_path: Path) -> None:
    rig = Rig(tmp_path, what="parsed", columns=("a",))
    for line in ('{"a": 1}', '{"a": "x"}', '{"a": [2]}'):
        rig.write(line)
        rig.once()
    kinds = [pq.read_schema(path).field("a").type for path in sorted(tmp_path.glob("out/app/*/*/*.parquet"))]
    assert kinds[0] == "int64"
    assert set(kinds) == {kinds[0]}
    state = tmp_path / "out/app/host=h1/_state.json"
    old = json.loads(state.read_text())
    del old["types"]  # as it was written before there were types in it
    state.write_text(json.dumps(old))
    rig.open().close()
    state.write_text(json.dumps({**old, "types": "AAAA"}))
    with pytest.raises(StorageError, match="state is damaged"):
        rig.open()


async def test_what_arrow_refuses_is_a_problem_with_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_archive: Archive) -> int:
        raise pa.ArrowInvalid("no such cast")

    monkeypatch.setattr(Archive, "step", refused)
    stream = StreamConfig(path=str(tmp_path / "log"), format="json", archive=ArchiveConfig())
    archives = Archives(
        {"app": stream}, lambda name, each: format_of(each, name=name), tmp_path / "out", "h1", again_s=60
    )
    archives.start()
    await _until(archives.problems)
    assert archives.problems() == {"archive app": "no such cast"}
    await archives.close()


def test_the_budget_deletes_the_oldest_files_and_reports_their_number(tmp_path: Path) -> None:
    rig = Rig(tmp_path, file="1 kB", bytes="9 kB")
    for turn in range(20):
        rig.write(*(json.dumps({"n": turn, "pad": os.urandom(40).hex()}) for _ in range(10)))
        reported = rig.once()
    assert reported["bytes"] <= 9_000
    assert reported["expired_files"] > 0
    assert reported["files"] + reported["expired_files"] == 20
    assert max(json.loads(row["_raw"])["n"] for row in rig.rows) == 19


def test_files_older_than_they_are_kept_go_though_nothing_new_comes(tmp_path: Path) -> None:
    rig = Rig(tmp_path, keep="10 s")
    rig.write('{"n": 1}')
    rig.once()
    rig.write('{"n": 2}')
    rig.once()
    rig.now = max(path.stat().st_mtime for path in tmp_path.rglob("*.parquet")) + 11
    archive = rig.open()
    archive.step()
    archive.close()
    assert [row["_raw"] for row in rig.rows] == ['{"n": 2}']  # the newest file stays


def test_two_writers_never_share_an_archive(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    first = rig.open()
    with pytest.raises(RuntimeFailure, match="another process writes this archive"):
        rig.open()
    first.close()
    rig.open().close()


async def test_a_full_disk_stops_the_archive_by_name_and_loses_no_line(tmp_path: Path) -> None:
    rig = Rig(tmp_path, every="1 ms")
    stream = StreamConfig(path=rig.stream.path, format="json", archive=ArchiveConfig(every="1 ms"))
    rig.write('{"n": 1}')

    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def formats(name: str, each: StreamConfig) -> Any:
        return format_of(each, name=name)

    archives = Archives({"app": stream}, formats, tmp_path / "out", "h1", look_s=0.01, again_s=0.01)
    with failpoints.armed("archive.write", full):
        archives.start()
        await _until(lambda: archives.describe()["app"]["failures"] == 1)
        assert archives.problems() in ({"archive app": "No space left on device"}, {})
        rig.write('{"n": 2}')
        await _until(lambda: archives.describe()["app"]["rows"] == 2)
    assert archives.problems() == {}
    await archives.close()
    assert sorted(row["_raw"] for row in rig.rows) == ['{"n": 1}', '{"n": 2}']


async def _until(holds: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - what changes is in another thread
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("lack", [MemoryError(), pa.ArrowMemoryError("malloc of 64 bytes failed")], ids=repr)
async def test_lines_whose_rows_find_no_memory_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lack: Exception
) -> None:
    rig = Rig(tmp_path)
    stream = StreamConfig(path=rig.stream.path, format="json", archive=ArchiveConfig(every="1 ms"))
    failures = [lack, lack]

    def short_of_memory(*args: Any) -> pa.Table:
        if failures:
            raise failures.pop()
        return raw_rows(*args)

    monkeypatch.setattr("elfmesh.agent.archive.archive.raw_rows", short_of_memory)
    rig.write(*(f'{{"n": {n}}}' for n in range(10)))

    def formats(name: str, each: StreamConfig) -> Any:
        return format_of(each, name=name)

    archives = Archives({"app": stream}, formats, tmp_path / "out", "h1", look_s=0.01, again_s=0.01)
    archives.start()
    await _until(lambda: archives.describe()["app"]["rows"] == 10)
    assert archives.describe()["app"]["failures"] == 2
    await archives.close()
    assert [json.loads(row["_raw"])["n"] for row in rig.rows] == [*range(10)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"path": "out"}, "streams.app.archive.path: 'out' is not absolute"),
        ({"file": "1 GB"}, "streams.app.archive.file: must be from 1 kB to 512 MB"),
        ({"bytes": "1 MB"}, "streams.app.archive.bytes: must be at least the size of one file"),
        ({"columns": ["a"]}, "streams.app.archive.columns: a raw archive has no columns"),
        ({"keep": "never"}, "streams.app.archive.keep"),
        ({"what": "all"}, "streams.app"),
    ],
)
def test_settings_that_cannot_be_are_named(given: dict[str, Any], message: str) -> None:
    raw = {"streams": {"app": {"path": "/x", "archive": given}}}
    with pytest.raises(ConfigError) as caught:
        config_of(raw, "agent.toml")
    assert message in str(caught.value)


def test_files_are_read_by_pandas_and_arrow_as_they_are(tmp_path: Path) -> None:
    rig = Rig(tmp_path, what="parsed", columns=("a",))
    rig.write('{"a": 1}')
    rig.once()
    rig.write('{"a": 2.5}')
    rig.once()
    found = ds.dataset(tmp_path / "out" / "app", format="parquet", partitioning="hive", schema=None)
    assert pa.types.is_int64(found.schema.field("_offset").type)
    assert found.count_rows() == 2
