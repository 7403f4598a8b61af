"""An interval made again from the files that are there: what rotation left, each content once."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from elfmesh.control.jobs.manifest import new_manifest
from elfmesh.control.jobs.plan import read_job
from elfmesh.control.protocol import events as ctl
from elfmesh.ingest.compute import PartialCompute
from elfmesh.ingest.parsers import Parsed, StreamFormat
from elfmesh.ingest.sources import Block
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.ingest.worker.recheck import Recheck, raw_logs
from elfmesh.ingest.worker.worker import JobWorker
from elfmesh.ql.engine.block import BlockRows
from elfmesh.ql.values.plain_ipc import ipc_to_table
from elfmesh.storage.crashes import EVALUATING_FILE, NO_GUARD, CrashGuard, NoGuard

TEXT = """CREATE JOB shop.top AS SELECT k, count(*) AS n FROM log
GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), k ORDER BY n DESC"""


def effect(interval: int, text: str = TEXT) -> ctl.Recompute:
    manifest = new_manifest(read_job(text)[0], text, "local", created=0, incarnation="1")
    return ctl.Recompute(7, manifest, interval)


def lines(*records: tuple[int, str]) -> str:
    stamped = [(f"1970-01-01T00:{second // 60:02}:{second % 60:02}Z", key) for second, key in records]
    return "".join(json.dumps({"ts": stamp, "k": key}) + "\n" for stamp, key in stamped)


def recheck(path: Path, guard: CrashGuard | NoGuard = NO_GUARD) -> Recheck:
    streams = {"log": StreamConfig(path=str(path), format="json")}
    return Recheck(
        streams, lambda name, config: StreamFormat(config.format, host="here"), spill_dir=None, guard=guard
    )


def rows(done: ctl.Recomputed, interval: int) -> list[dict[str, object]]:
    manifest = effect(interval).manifest
    finalise = ctl.Finalise(b"", 1, manifest, interval, (tuple(part for part in done.payloads if part),))
    found: list[dict[str, object]] = ipc_to_table(PartialCompute().finalise(finalise)).to_pylist()
    return found


def test_all_that_rotation_left_is_read_and_nothing_twice(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text(lines((25, "a"), (31, "x")))
    (tmp_path / "access.log.1").write_text(lines((21, "a"), (22, "b")))
    (tmp_path / "access.log.2.gz").write_bytes(gzip.compress(lines((20, "c"), (5, "z")).encode()))
    (tmp_path / "access.log.1.gz").write_bytes(gzip.compress(lines((21, "a"), (22, "b")).encode()))
    (tmp_path / "access.log-20150517").hardlink_to(tmp_path / "access.log.1")
    (tmp_path / "other.log").write_text(lines((21, "o")))
    os.mkfifo(tmp_path / "access.log.pipe")
    done = recheck(log)(effect(2))
    assert done.error == ""
    assert done.counts[0] == 4
    assert rows(done, 2) == [{"k": "a", "n": 2}, {"k": "b", "n": 1}, {"k": "c", "n": 1}]


def test_an_interval_without_lines_is_empty(tmp_path: Path) -> None:
    (tmp_path / "access.log").write_text(lines((5, "z"), (500, "z")))
    done = recheck(tmp_path / "access.log")(effect(9))
    assert (done.error, done.payloads, sum(done.counts[:1])) == ("", (b"",), 0)


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_what_cannot_be_read_is_an_error_not_another_answer(tmp_path: Path, damage: str) -> None:
    log = tmp_path / "access.log"
    log.write_text(lines((25, "a")))
    packed = tmp_path / "access.log.2.gz"
    packed.write_bytes(gzip.compress(lines((20, "c")).encode())[:-9])
    text = TEXT if damage == "cut" else TEXT.replace("FROM log", "FROM elsewhere")
    done = recheck(log)(effect(2, text))
    assert ("access.log.2.gz" if damage == "cut" else "elsewhere") in done.error
    assert done.payloads == ()


def test_a_file_that_cannot_be_looked_at_is_an_error_not_another_answer(tmp_path: Path) -> None:
    (tmp_path / "access.log").symlink_to(tmp_path / "access.log")
    done = recheck(tmp_path / "access.log")(effect(2))
    assert "access.log" in done.error
    assert done.payloads == ()


def test_a_glob_names_its_files_in_a_fixed_order(tmp_path: Path) -> None:
    for name in ("b.log", "a.log", "a.log.1"):
        (tmp_path / name).write_text("x\n")
    found = raw_logs(str(tmp_path / "*.log"))
    assert [Path(path).name for path in found] == ["a.log", "a.log.1", "b.log"]


def test_nothing_is_kept_of_later_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "access.log"
    log.write_text(
        lines((19, "early"), (20, "a"), (29, "b"), *((at, f"late-{at}") for at in range(30, 3000)))
    )
    fed: list[int] = []
    feed = JobWorker.feed

    def feeding(worker: JobWorker, parsed: Parsed, block: Block, now_us: int, rows: BlockRows) -> None:
        fed.append(rows.rows)
        feed(worker, parsed, block, now_us, rows)

    monkeypatch.setattr(JobWorker, "feed", feeding)
    done = recheck(log)(effect(2))
    assert (done.error, done.counts[0]) == ("", 2)
    assert rows(done, 2) == [{"k": "a", "n": 1}, {"k": "b", "n": 1}]
    assert sum(fed) == 3


def test_an_interval_that_ended_the_agent_twice_is_refused_and_the_next_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, noted = tmp_path / "access.log", tmp_path / EVALUATING_FILE
    log.write_text(lines((25, "a"), (35, "b")))
    when_killed: list[bytes] = []
    feed = JobWorker.feed

    def feeding(worker: JobWorker, parsed: Parsed, block: Block, now_us: int, rows: BlockRows) -> None:
        when_killed.append(noted.read_bytes())
        feed(worker, parsed, block, now_us, rows)

    def start() -> Recheck:
        return recheck(log, CrashGuard(tmp_path, lambda: 1e9))

    monkeypatch.setattr(JobWorker, "feed", feeding)
    for _ in range(2):
        assert start()(effect(2)).error == ""
        left = tmp_path / "left"
        left.write_bytes(when_killed.pop())
        left.replace(noted)
    done = start()(effect(2))
    assert "killed 2 times while the rows for a verification of shop/top version 1" in done.error
    assert when_killed == []
    assert start()(effect(3)).error == ""
