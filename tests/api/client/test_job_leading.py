"""The master side of a program: who leads, and what is reported as handled."""

from __future__ import annotations

import asyncio
from typing import Any

from elfmesh.api.client.job_leading import Leading
from elfmesh.api.client.job_values import EarlyResult, Result
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


async def test_a_deposed_master_does_not_overwrite_the_position_of_its_successor() -> None:
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


class Watching(Slow):
    """A side that wants early rows."""

    def __init__(self) -> None:
        super().__init__()
        self.early: list[EarlyResult] = []

    async def on_result(self, result: Result) -> None:
        self.handled.append(result.index)

    async def on_early(self, result: EarlyResult) -> None:
        self.early.append(result)


class Lines(OneResult):
    """An agent's API with an early line, then the result of its window."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, object]] = []

    async def page(self, *_: object, **about: object) -> tuple[list[dict[str, Any]], int]:
        await asyncio.sleep(0.01)  # as a request does
        self.asked.append((about["state"], about["revision"]))
        if len(self.asked) > 2:
            return [], 8
        interval = {"index": 5, "start": "a", "end": "b"}
        agents = {"in": 1, "expected": 2, "from": ["web1"]}
        early = {"interval": interval, "state": "EARLY", "rows": [{"k": 1}], "growing": ["n"], "version": 3}
        final = dict.fromkeys(("rows", "completeness", "version", "counts")) | {"state": "FINAL"}
        return [early | {"agents": agents}, final | {"interval": interval}], 7


async def test_early_rows_are_handled_and_move_no_position() -> None:
    side, from_agent, lines = Watching(), ReportingClient(), Lines()
    leading = Leading(side, lines, from_agent, follows=True, early=True)  # type: ignore[arg-type]  # as above
    leading.appoint(program_frames.Role(True, 1, "me", program_frames.ResultPosition(1, 4, "i:4")))
    task = asyncio.create_task(leading.run())
    async with asyncio.timeout(PATIENCE_S):
        while len(lines.asked) < 3:  # noqa: ASYNC110 - the other side's state
            await asyncio.sleep(0.01)
    task.cancel()
    assert side.early == [EarlyResult(5, "a", "b", [{"k": 1}], ["n"], ["web1"], 3)]
    assert side.handled == [5]
    assert from_agent.places == [program_frames.ResultPosition(1, 5, "i:5")]
    assert lines.asked[:3] == [("early", 0), ("early", 0), ("early", 7)]  # the first names the incarnation
