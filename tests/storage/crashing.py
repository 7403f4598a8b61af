"""An agent's side of a story, in a process to be killed.

Writes what leaves the agent to an outbox, a line per interval, on disk before the next thing happens: what a
parent was told before the crash counts as told.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from elfmesh.control.protocol import events as ctl
from elfmesh.storage import failpoints
from tests.ingest.rotation.station import PROMPT, Station

STEP_S = 10.0


class ReportingStation(Station):
    """A station that says aloud what leaves it."""

    def __init__(self, room: Path) -> None:
        super().__init__(room, text=PROMPT)
        self._outbox = room / "outbox"

    def _hear(self, event: object) -> None:
        before = set(self.counts)
        super()._hear(event)
        if isinstance(event, ctl.Sealed):
            with self._outbox.open("a") as outbox:
                for entry in event.parts[0]:
                    if entry.interval not in before:
                        rows = sorted(self.rows[entry.interval].items())
                        outbox.write(json.dumps([entry.interval, entry.counts, rows]) + "\n")
                outbox.flush()
                os.fsync(outbox.fileno())


def run(room: Path, begin: int, end: int) -> None:
    """Steps [begin, end) of the story: the parent has written the logs up to each already."""
    station = ReportingStation(room)
    station.now_s = begin * STEP_S
    for _ in range(begin, end):
        station.step(STEP_S, polls=2)
        station.release()
    station.down()


def play(room: Path, begin: int, end: int, failpoint: str) -> None:
    """Play in a process of its own, with this fail point; an exception is written to ROOM/stderr."""
    sys.stderr = (room / "stderr").open("w")
    failpoints.arm_from({failpoints.VARIABLE: failpoint})
    run(room, begin, end)
