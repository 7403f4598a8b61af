"""What programs insert: durable before it is acknowledged, and once for each position."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from elfmesh.errors import UsageError
from elfmesh.ingest.host import ThreadExecutor
from elfmesh.ingest.inputs.host import Inputs
from elfmesh.ingest.inputs.inserts import Inserts
from elfmesh.ingest.inputs.positions import (
    PRODUCERS_MAX,
)
from elfmesh.ingest.stream_settings import StreamConfig


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What crashes here is the process: what it wrote is there, synced or not."""
    monkeypatch.setattr("os.fsync", lambda fd: None)
    monkeypatch.setattr("os.fdatasync", lambda fd: None)


async def test_inserts_of_one_producer_wait_for_each_other_and_count_once(tmp_path: Path) -> None:
    executor = ThreadExecutor(2)
    streams = {"words": StreamConfig(listen="program://shop/words")}
    inputs = Inputs(streams, tmp_path, executor)
    try:
        await inputs.start(None)  # type: ignore[arg-type]  # no job reads here
        target = inputs.inserts("shop/words", None)
        same = [target.insert("p", 1, [b'{"k":1}']) for _ in range(5)]
        assert await asyncio.gather(*same) == [1] * 5
        assert await target.insert("p", 3, [b'{"k":3}']) == 3
        assert await target.insert("p", 2, [b'{"k":2}']) == 3, "a position never goes back"
        found = [
            json.loads(line)["k"] for line in (tmp_path / "words" / "spool.log").read_bytes().splitlines()
        ]
        assert found == [1, 3]
        assert target.position("p") == 3
        with pytest.raises(UsageError, match="no stream"):
            inputs.inserts("shop/other", None)
        with pytest.raises(UsageError, match="longer than"):
            await target.insert("p", 9, [b"x" * (2 << 20)])
        await refuses_one_more_producer(target)
    finally:
        await inputs.close()
        executor.close()


async def refuses_one_more_producer(target: Inserts) -> None:
    positions = target._writer.spool.positions
    assert positions is not None
    positions._take([(f"named-{number}", 1) for number in range(PRODUCERS_MAX)])
    with pytest.raises(UsageError, match="producers"):
        await target.insert("late", 1, [b"{}"])
    assert await target.insert("p", 4, [b'{"k":4}']) == 4, "who is known goes on"
