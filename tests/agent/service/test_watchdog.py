"""Signs of life stop when a stream does, and come back with it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from elfmesh.agent.service.notify import Notifier
from elfmesh.agent.service.watchdog import Watchdog
from tests.agent.service.listener import Listener
from tests.patience import PATIENCE_S


class Stream:
    def __init__(self, began: float) -> None:
        self.began = began

    def stalled_s(self, now: float) -> float:
        return now - self.began


class Streams:
    """Two streams; one of them always moves."""

    def __init__(self) -> None:
        self.access = Stream(0.0)
        self.problem = ""

    @property
    def ingests(self) -> dict[str, Stream]:
        return {"access": self.access, "other": Stream(1e9)}


def test_a_stream_that_does_not_move_ends_the_signs_and_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    streams = Streams()
    with Listener(tmp_path / "notify") as manager:
        watchdog = Watchdog(Notifier(str(manager.path), 10.0), streams)
        watchdog.look(0.0, 5.0)
        assert manager.next() == {"WATCHDOG": "1"}
        watchdog.look(4.9, 5.0)
        assert manager.next() == {"WATCHDOG": "1"}
        watchdog.look(5.1, 5.0)
        watchdog.look(6.0, 5.0)
        assert manager.next() == {"STATUS": "stuck: stream access does not move"}
        streams.access.began = 6.9
        watchdog.look(7.0, 5.0)
        assert manager.next() == {"STATUS": "ready"}
        assert manager.next() == {"WATCHDOG": "1"}
    reported = [record.getMessage() for record in caplog.records]
    assert reported == [
        "stream access has not moved for 5.1 s: no more signs of life",
        "all streams move again",
    ]


async def test_without_a_watchdog_nothing_runs() -> None:
    async with asyncio.timeout(PATIENCE_S):
        await Watchdog(Notifier("/nobody"), Streams()).run()


def test_a_stream_that_waits_for_a_full_disk_is_not_stuck(tmp_path: Path) -> None:
    streams = Streams()
    streams.problem = "reading waits: the disk is full"
    with Listener(tmp_path / "notify") as manager:
        Watchdog(Notifier(str(manager.path), 10.0), streams).look(100.0, 5.0)
        assert manager.next() == {"WATCHDOG": "1"}
