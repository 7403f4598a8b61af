"""A worker that one thread ends while another may ask it."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from elfmesh.ingest.functions.process import Limits, WorkerFailed, WorkerProcess
from tests.ingest.functions.declared import function


def test_a_call_of_a_worker_that_was_ended_writes_into_no_file(tmp_path: Path) -> None:
    one = function("def f(x):\n    return x")
    process = WorkerProcess([one], Limits(seconds=30.0, memory_bytes=128 << 20))
    process.kill()
    path = tmp_path / "frames.log"
    taken = [os.open(path, os.O_RDWR | os.O_CREAT) for _ in range(8)]  # the pipes' numbers are free again
    try:
        with pytest.raises(WorkerFailed):
            process.call(0, [pa.array([1], pa.int64())], 1)
        assert path.read_bytes() == b""
    finally:
        for number in taken:
            os.close(number)


def test_a_call_may_wait_longer_than_its_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a busy host, whose functions get the processor late."""
    monkeypatch.setattr("elfmesh.ingest.functions.process.CLOCK_FACTOR", 1000.0)
    waits = function("import time\ndef f(x):\n    time.sleep(1.5)\n    return x")
    loops = function("def f(x):\n    while True: pass")
    for one in (waits, loops):
        process = WorkerProcess([one], Limits(seconds=1.0, memory_bytes=128 << 20))
        try:
            if one is waits:
                assert process.call(0, [pa.array([7], pa.int64())], 1).values.to_pylist() == [7]
            else:
                with pytest.raises(WorkerFailed, match="no answer within 1 s of processor time"):
                    process.call(0, [pa.array([7], pa.int64())], 1)
        finally:
            process.kill()
