"""The sink `lines`: one file of JSON lines per job, `{"path": DIRECTORY}`.

A line has the record, so the file itself is the position: an interval is written once, also after a crash,
because a line without its end is cut off before the next one is written.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elfmesh.agent.sinks.base import LogName, LostIntervals, Position, SinkItem, Unavailable, admit


class Lines:
    """A directory with a file for each incarnation of a job."""

    api_version = 1

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        if set(options) != {"path"} or not str(options["path"]).startswith("/"):
            raise ValueError('it takes one option, an absolute path = "/..."')
        self._directory = Path(options["path"])
        self._written = 0

    async def position(self, log: LogName) -> Position | None:
        """Return the position after the last line of a file."""
        return await asyncio.to_thread(self._position, log)

    async def write(self, log: LogName, item: SinkItem) -> bool:
        """Append the record, unless the file has it."""
        if not admit(await self.position(log), None, item):
            return False
        lines = list(item.shown(log))
        await asyncio.to_thread(
            self._append, log, {"next": item.record.index + 1, "epoch": item.record.epoch}, lines
        )
        self._written += 1
        return True

    async def declare(self, log: LogName, lost: LostIntervals) -> None:
        """Append a line that names intervals which the file will never have."""
        at = await self.position(log)
        place = {"next": max(lost.last + 1, at.next if at else 0), "epoch": at.epoch if at else 0}
        await asyncio.to_thread(
            self._append, log, place, [{"lost": [lost.first, lost.last], "why": lost.why}]
        )

    def ended(self, log: LogName) -> None:
        """Leave the file as it is."""

    async def close(self) -> None:
        """Do nothing: no file stays open."""

    def describe(self) -> Mapping[str, Any]:
        """Return what `elf describe agent` shows."""
        return {"path": str(self._directory), "written": self._written}

    def _file(self, log: LogName) -> Path:
        return self._directory / f"{log.job.replace('/', '.')}-{log.incarnation}.ndjson"

    def _position(self, log: LogName) -> Position | None:
        lines = self._whole(log)
        return Position(**json.loads(lines[-1])["position"]) if lines else None

    def _whole(self, log: LogName) -> list[bytes]:
        try:
            return [
                line
                for line in self._file(log).read_bytes().splitlines(keepends=True)
                if line.endswith(b"\n")
            ]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise Unavailable(f"{error}") from None

    def _append(self, log: LogName, place: dict[str, int], records: list[dict[str, Any]]) -> None:
        text = json.dumps({"position": place, "records": records}, default=str).encode() + b"\n"
        kept = sum(map(len, self._whole(log)))
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            with self._file(log).open("ab") as file:
                file.truncate(kept)
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise Unavailable(f"{error}") from None
