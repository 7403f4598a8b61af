"""The master side of a program: who leads, and what is reported as handled."""

from __future__ import annotations

import asyncio
from typing import Any

from elfmesh.api.client.job_leading import Leading
from elfmesh.api.client.job_values import Result
from elfmesh.control.protocol import program_frames
from tests.patience import PATIENCE_S


class Slow:
    """A side whose result takes so long that another one leads before it is handled."""

    query, name, creator = "", "shop/top", "local"

    def __init__(self) -> None:
        self.leading: Leading | None = None
        self.handled: list[int] = []

    async def on_master(self) -> None:
        pass

    async def on_result(self, result: Result) -> None:
        self.handled.append(result.index)
        assert self.leading is not None
        self.leading.appoint(
            program_frames.Role(False, 2, "web", program_frames.ResultPosition(2, 50, "i:50"))
        )


class OneResult:
    """An agent's API that has results 5 and 6."""

    async def page(self, *_: object, **__: object) -> tuple[list[dict[str, Any]], int]:
        names = ("rows", "state", "completeness", "version", "counts")
        interval = {"start": None, "end": None}
        return [dict.fromkeys(names) | {"interval": {"index": index, **interval}} for index in (5, 6)], 0

    async def offsets(self, *_: object, **__: object) -> dict[str, Any]:
        return {"earliest": 0, "latest": 0, "incarnation": "i", "expired": None}


class ReportingClient:
    def __init__(self) -> None:
        self.places: list[program_frames.ResultPosition] = []

    async def reached(self, place: program_frames.ResultPosition) -> None:
        self.places.append(place)


async def test_who_was_deposed_does_not_take_its_successor_back() -> None:
    side, from_agent = Slow(), ReportingClient()
    side.leading = Leading(side, OneResult(), from_agent, follows=True)  # type: ignore[arg-type]  # of one result
    side.leading.appoint(program_frames.Role(True, 1, "me", program_frames.ResultPosition(1, 4, "i:4")))
    task = asyncio.create_task(side.leading.run())
    async with asyncio.timeout(PATIENCE_S):
        while not from_agent.places:  # noqa: ASYNC110 - the other side's state
            await asyncio.sleep(0.01)
    task.cancel()
    assert side.handled == [5]
    assert from_agent.places == [program_frames.ResultPosition(1, 5, "i:5")], (
        "the term in which it was handled"
    )
    assert side.leading.role.place == program_frames.ResultPosition(2, 50, "i:50")
