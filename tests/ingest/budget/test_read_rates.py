"""What a new job would read of the streams of an agent, and at which rate: from reads, or from a sample."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
import zstandard

from elfmesh.control.jobs.manifest import Manifest, new_manifest
from elfmesh.control.jobs.plan import read_job
from elfmesh.control.jobs.resuming import within_range
from elfmesh.ingest.budget.read_rates import MEASURED_BYTES, LogCosts, ReadRate
from elfmesh.ingest.stream_settings import StreamConfig
from tests.ingest.sources.stretches import Host, log_of, short_stretches, wanted

LINE = json.dumps({"ts": "2026-01-01T00:00:00Z", "status": 200}) + "\n"
NOTHING = {"files": 0, "bytes": 0, "estimated": 0}


def config(path: Path, **of: Any) -> StreamConfig:
    return StreamConfig(path=str(path), format="json", **of)


def test_files_that_a_new_job_reads_count(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LINE * 3)
    (tmp_path / "b.log").write_text(LINE * 2)
    (tmp_path / "a.log.1").write_text(LINE * 9)
    (tmp_path / "c.log").write_bytes(gzip.compress(LINE.encode()))
    streams = {
        "all": config(tmp_path / "*.log"),
        "new": config(tmp_path / "*.log", read_from="end"),
        "none": config(tmp_path / "missing"),
    }
    assert LogCosts(streams).sizes() == {
        "all": {"files": 2, "bytes": 5 * len(LINE), "estimated": 0},
        "new": NOTHING,
        "none": NOTHING,
    }


def test_a_stream_without_reads_is_measured_on_a_sample_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.log"
    costs = LogCosts({"log": config(path)}, cores=0.5)
    assert costs.reading({})["log"]["read_bytes"] == 0, "there is no file yet"
    path.write_text(LINE * 20 + "the rest of a li")
    found = costs.reading({})["log"]
    assert (found["read_bytes"], found["read_lines"]) == (20 * len(LINE), 20)
    assert found["cpu_seconds"] > 0
    assert (found["measured_on"], found["cores"]) == ("sample", 0.5)
    monkeypatch.setattr("elfmesh.ingest.budget.read_rates._measured", lambda *about: ReadRate())
    assert costs.reading({})["log"] == found | {"bytes": path.stat().st_size}


def test_reads_count_more_than_a_sample(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(LINE)
    rate = ReadRate()
    rate.add(MEASURED_BYTES - 1, 10, 0.5)
    rate.add(0, 0, 9.0)
    costs = LogCosts({"log": config(path)})
    assert costs.reading({str(path): rate})["log"]["measured_on"] == "sample"
    rate.add(1, 1, 0.25)
    found = costs.reading({str(path): rate})["log"]
    assert (found["read_bytes"], found["read_lines"], found["cpu_seconds"]) == (MEASURED_BYTES, 11, 0.75)
    assert found["measured_on"] == "reads"


def test_a_log_that_breaks_its_parser_has_no_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*about: object, **of: object) -> None:
        raise ValueError("broken")

    path = tmp_path / "a.log"
    path.write_text(LINE)
    monkeypatch.setattr("elfmesh.ingest.parsers.formats.StreamFormat.parser", broken)
    assert LogCosts({"log": config(path)}).reading({})["log"]["cpu_seconds"] == 0.0


def job(clause: str, now_us: int = 10**15) -> Manifest:
    text = (
        f"CREATE JOB t.n AS SELECT count(*) AS n FROM log {clause} GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)"
    )
    names, _ = read_job(text)
    return within_range(new_manifest(names, text, "me", created=0, incarnation="i1"), now_us, leased=False)[0]


def test_a_job_with_history_reads_rotated_and_compressed_files_too(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LINE * 3)
    (tmp_path / "a.log.1").write_text(LINE * 9)
    (tmp_path / "a.log.2.gz").write_bytes(gzip.compress((LINE * 50).encode()))
    (tmp_path / "a.log.3.zst").write_bytes(zstandard.ZstdCompressor().compress((LINE * 70).encode()))
    (tmp_path / "other.log.1").write_text(LINE)
    for read_from in ("beginning", "end"):
        costs = LogCosts({"log": config(tmp_path / "a.log", read_from=read_from)})
        found = costs.sizes(job("HISTORY '1 h' UNTIL HISTORY"))
        assert found == {"log": {"files": 4, "bytes": 132 * len(LINE), "estimated": 0}}
    assert costs.sizes(job("")) == {"log": NOTHING}


def test_a_compressed_file_that_does_not_state_its_size_is_predicted_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(7)
    lines = [
        json.dumps({"ts": rng.getrandbits(60), "status": rng.randrange(600)}) + "\n" for _ in range(40_000)
    ]
    text = "".join(lines).encode()
    parts = [text[at : at + 200_000] for at in range(0, len(text), 200_000)]
    writer = zstandard.ZstdCompressor().compressobj()
    unstated = {
        "a.log.1.gz": b"".join(map(gzip.compress, parts)),
        "a.log.2.zst": b"".join(map(writer.compress, parts)) + writer.flush(),
        "a.log.3.zst": b"".join(map(zstandard.ZstdCompressor().compress, parts)),
    }
    (tmp_path / "a.log").write_text(LINE)
    costs = LogCosts({"log": config(tmp_path / "a.log")})
    for name, data in unstated.items():
        (tmp_path / name).write_bytes(data)
        found = costs.sizes(job("HISTORY '1 h' UNTIL HISTORY"))["log"]
        assert found["bytes"] - len(LINE) == pytest.approx(len(text), rel=0.15), name
        assert found["estimated"] == found["bytes"] - len(LINE), name
        monkeypatch.setattr("elfmesh.ingest.sources.contents.expected_size", None)  # it is kept
        assert costs.sizes(job("HISTORY '1 h' UNTIL HISTORY"))["log"] == found
        monkeypatch.undo()
        (tmp_path / name).unlink()
    (tmp_path / "a.log.1.gz").write_bytes(gzip.compress(text))
    (tmp_path / "a.log.2.zst").write_bytes(zstandard.ZstdCompressor().compress(text))
    stated = costs.sizes(job("HISTORY '1 h' UNTIL HISTORY"))["log"]
    assert stated == {"files": 3, "bytes": len(LINE) + 2 * len(text), "estimated": 0}


def test_the_time_index_lowers_the_cost_of_a_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elfmesh.ingest.sources.blocks.BLOCK_BYTES", 900)
    with short_stretches():
        host = Host(tmp_path)
        host.log.write_text(log_of(range(10_000)))
        whole = host.log.stat().st_size
        costs = LogCosts({"log": config(host.log)}, times=lambda _stream: host.times)
        clause = "HISTORY TIMESTAMP '1970-01-01 02:45:00' UNTIL HISTORY"
        assert costs.sizes(job(clause))["log"]["bytes"] == whole
        host.read()
        predicted = costs.reading({}, job(clause))["log"]["bytes"]
        assert predicted < whole / 10
        host.read(wanted(9900))
        assert 0 < host.bytes_read <= predicted
        assert costs.sizes(job("")) == {"log": {"files": 1, "bytes": whole, "estimated": 0}}
        until = costs.sizes(job("UNTIL TIMESTAMP '1970-01-01 00:02:00'"))["log"]["bytes"]
        assert until < whole / 10
