"""Positions of sinks that send requests. `test_webhook.py` has the requests and their answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from elfmesh.agent.sinks.base import Position, Unavailable
from elfmesh.agent.sinks.config import AlertmanagerSink
from elfmesh.agent.sinks.http_post import HttpPost, StoredPositions
from elfmesh.storage.storage import DiskStorage
from tests.agent.sinks.rig import LOG


def damage(directory: Path) -> None:
    (path,) = [each for each in directory.rglob("1a2b*") if each.is_file()]
    path.write_bytes(path.read_bytes().replace(b"7", b"8"))


async def test_a_position_is_that_of_its_log(tmp_path: Path) -> None:
    storage = DiskStorage(tmp_path)
    positions = StoredPositions("pager", storage)
    assert await positions.get(LOG) is None
    await positions.put(LOG, Position(7, 2))
    assert await positions.get(LOG) == Position(7, 2)
    damage(tmp_path)
    with pytest.raises(Unavailable, match="its position is damaged"):
        await positions.get(LOG)
    positions.close()
    storage.close()


def test_a_description_has_no_path() -> None:
    config = AlertmanagerSink(jobs=("*",), url="https://alerts.example.com:9093/secret")
    assert HttpPost(config, "/api").describe() == {"url": "https://alerts.example.com:9093"}
