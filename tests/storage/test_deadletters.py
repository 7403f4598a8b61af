from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh import ql
from elfmesh.agent.data_directory.dead_letter_rows import to_json
from elfmesh.cli.host.dead_letters import dead_letters_command
from elfmesh.control.jobs.manifest import Manifest, new_manifest
from elfmesh.control.jobs.plan import read_job
from elfmesh.control.jobs.records import BUCKETS, NOT_COUNTED
from elfmesh.control.protocol import events as ctl
from elfmesh.control.protocol.events import DeadLetter
from elfmesh.errors import DataError, DiskFull
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.sources import Block, FilePosition
from elfmesh.ingest.sources.parsing import parse_block
from elfmesh.ingest.worker.jobs import LocalJob
from elfmesh.ingest.worker.worker import JobWorker
from elfmesh.storage import deadletters
from elfmesh.storage.deadletters import DeadLetters, read_dead_letter
from elfmesh.storage.framelog import FrameLog
from elfmesh.storage.frames import Released, Sealed, SealedInterval
from elfmesh.storage.storage import DiskStorage, MemoryStorage

TEXT = """CREATE JOB shop.top EVERY '10 s' AS
SELECT product, COUNT(*) AS hits FROM clicks GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), product"""


def manifest() -> Manifest:
    job, _ = read_job(TEXT)
    return new_manifest(job, TEXT, "local", created=0, incarnation="0badc0de")


def effect(interval: int, payload: bytes = b"", records: int = 3) -> DeadLetter:
    return DeadLetter(manifest(), interval, (records, *NOT_COUNTED[1:]), (payload,))


def names(storage: MemoryStorage) -> list[str]:
    return storage.names("dead-letter/")


def test_a_dead_letter_describes_itself_and_is_read_again() -> None:
    storage = MemoryStorage()
    kept = DeadLetters(storage, "web1")
    kept.write(effect(-5))
    kept.write(effect(1000))
    assert names(storage) == [
        "dead-letter/shop.top/-5.0badc0de.partial",
        "dead-letter/shop.top/1000.0badc0de.partial",
    ]
    dead_letter = read_dead_letter(storage.read(names(storage)[1]) or b"")
    assert to_json(dead_letter) == {
        "job": "shop/top",
        "interval": {"index": 1000, "start": "1970-01-01T02:46:40Z", "end": "1970-01-01T02:46:50Z"},
        "agent": "web1",
        "fate": "left out",
        "version": 1,
        "counts": {"contributed": 3},
        "rows": [],
    }
    storage.crash()
    again = DeadLetters(storage, "web1")
    assert again.describe() == kept.describe()
    again.write(effect(1000))
    assert again.describe() == kept.describe(), "the same letter replaces itself"


def test_beyond_the_budget_the_oldest_intervals_go_and_are_counted() -> None:
    storage = MemoryStorage()
    kept = DeadLetters(storage, "web1", bytes_max=4000)
    for interval in (1003, 1001, 1002, 1004, 1000):
        kept.write(effect(interval, bytes(1000)))
    described = kept.describe()
    assert described["files"] + described["dropped"] == 5
    assert described["bytes"] == sum(len(storage.read(name) or b"") for name in names(storage)) <= 4000
    left = sorted(int(name.split("/")[2].split(".")[0]) for name in names(storage))
    assert left == [1002, 1003, 1004][-len(left) :]


def test_a_dead_letter_over_the_whole_budget_is_kept_alone() -> None:
    storage = MemoryStorage()
    kept = DeadLetters(storage, "web1", bytes_max=100)
    kept.write(effect(1, bytes(1000)))
    kept.write(effect(2, bytes(1000)))
    assert names(storage) == ["dead-letter/shop.top/2.0badc0de.partial"]


def test_a_full_disk_costs_the_dead_letter_not_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    kept = DeadLetters(storage, "web1")

    def full(name: str, data: bytes) -> None:
        raise DiskFull("no room")

    monkeypatch.setattr(storage, "write", full)
    kept.write(effect(1))
    assert kept.describe() == {"files": 0, "bytes": 0, "dropped": 1}


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_damaged_dead_letters_are_refused(data: Any) -> None:
    storage = MemoryStorage()
    DeadLetters(storage, "web1").write(effect(7, b"abc"))
    good = bytearray(storage.read(names(storage)[0]) or b"")
    cut = data.draw(st.integers(0, len(good)))
    place = data.draw(st.integers(0, len(good) - 1))
    bad = good[:cut] if cut < len(good) else good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :]
    with pytest.raises(DataError):
        to_json(read_dead_letter(bytes(bad)))


def test_partials_that_cannot_be_read_are_a_data_error() -> None:
    storage = MemoryStorage()
    DeadLetters(storage, "web1").write(effect(7, b"no partial"))
    with pytest.raises(DataError, match="partials"):
        to_json(read_dead_letter(storage.read(names(storage)[0]) or b""))


def test_a_damaged_file_does_not_keep_an_agent_from_starting() -> None:
    storage = MemoryStorage()
    storage.write("dead-letter/shop.top/1.x.partial", b"rubbish")
    assert DeadLetters(storage, "web1").describe()["files"] == 0


def sealed_partial() -> tuple[int, bytes]:
    """One interval of a real worker: two teas and a milk."""
    worker = JobWorker(ql.parse(TEXT))
    parser = StreamFormat("json").parser("log")
    lines = [{"ts": 1_431_857_103, "product": product} for product in ("tea", "milk", "tea")]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    block = Block(data, "log", FilePosition("log", 1, 1, b"g", 0, 0), len(data))
    worker.feed(parse_block(parser, block, worker.columns), block, 1_431_857_200_000_000)
    (sealed,) = worker.seal(worker.end_index)
    return sealed.index, sealed.payloads[0]


def test_the_command_prints_the_rows(tmp_path: Path) -> None:
    index, payload = sealed_partial()
    storage = DiskStorage(tmp_path)
    kept = DeadLetters(storage, "web1")
    kept.write(effect(index, payload))
    kept.write(effect(index - 1))
    storage.close()
    done = CliRunner().invoke(dead_letters_command, [str(tmp_path / deadletters.DIRECTORY)])
    assert done.exit_code == 0, done.output
    first, second = map(json.loads, done.stdout.splitlines())
    assert (first["interval"]["index"], first["rows"]) == (index - 1, [])
    assert sorted((row["product"], row["hits"]) for row in second["rows"]) == [("milk", 1), ("tea", 2)]
    bad = tmp_path / "bad.partial"
    bad.write_bytes(b"rubbish")
    assert isinstance(CliRunner().invoke(dead_letters_command, [str(bad)]).exception, DataError)


def test_a_worker_sends_what_was_sealed_before_its_start_and_not_released() -> None:
    job = LocalJob(manifest(), 10)
    frames = FrameLog(MemoryStorage())
    counts = [1] + [0] * (len(BUCKETS) - 1)
    frames.append(Sealed(job.key, 1, 0, 0))
    for start, stop in ((0, 4), (4, 8), (8, 12)):
        entries = [SealedInterval(at, counts, [b""]) for at in range(start, stop)]
        frames.append(Sealed(job.key, 1, start, stop, entries))
    frames.append(Released(job.key, 5))
    events = job.recover(frames)
    assert all(event.again for event in events)
    reported = [entry.interval for event in events for entry in event.parts[0]]
    assert reported == [5, 6, 7, 8, 9, 10, 11]
    assert [
        (event.start, event.stop) for event in events if isinstance(event, ctl.Sealed) and event.start >= 10
    ] == [(10, 12)]
