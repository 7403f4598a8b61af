"""A program beside an agent: nothing is lost or doubled over a broken connection."""

from __future__ import annotations

import asyncio
import json

import pytest

from elfmesh.api.client.job_values import packed
from elfmesh.control.protocol import program_frames
from elfmesh.errors import RuntimeFailure, Unreachable
from tests.api.web.programs import (
    OTHER,
    Api,
    AskingClient,
    Kept,
    Sessions,
    api,
    kept,
    serving,
    sessions,
)
from tests.patience import PATIENCE_S

__all__ = ["api", "kept", "sessions"]


async def test_a_broken_connection_loses_nothing_and_doubles_nothing(api: Api, sessions: Sessions) -> None:
    numbers: list[int] = []

    def reply(frame: program_frames.FromProgram) -> None:
        assert sessions.deliver is not None
        if isinstance(frame, program_frames.Say):
            numbers.append(frame.number)
            if len(numbers) == 1:
                raise ConnectionResetError  # before any answer
            for _ in range(3):
                sessions.deliver(
                    program_frames.Deliver(OTHER, 5, "send_to", "web", packed([1, 2]), group="g")
                )
            sessions.deliver(program_frames.Answer(frame.number, "ok", packed("fine")))

    sessions.reply = reply
    job = AskingClient(f"{api.host}:{api.port}")
    done = [program_frames.Handled(OTHER, 5)]
    await serving(job, lambda: job.outcome == "fine" and done[0] in sessions.reported_ and job.ticks > 1)
    assert len(sessions.attached) == 2
    assert numbers == [1, 1], "the same message, under its old name"
    assert job.received == [("g", [1, 2])], "three copies are one message"


@pytest.mark.parametrize(
    ("status", "kind"), [("failed", RuntimeFailure), ("silent", Unreachable), ("busy", Unreachable)]
)
async def test_a_program_learns_how_its_message_ended(
    api: Api, sessions: Sessions, status: program_frames.Status, kind: type[Exception]
) -> None:
    def reply(frame: program_frames.FromProgram) -> None:
        assert sessions.deliver is not None
        if isinstance(frame, program_frames.Say):
            sessions.deliver(program_frames.Answer(frame.number, status, error="KeyError: 'x'"))

    sessions.reply = reply
    job = AskingClient(f"{api.host}:{api.port}")
    await serving(job, lambda: job.outcome is not None)
    assert type(job.outcome) is kind


async def test_a_process_that_was_replaced_ends(api: Api, sessions: Sessions) -> None:
    job = AskingClient(f"{api.host}:{api.port}")
    task = asyncio.create_task(job.serve())
    async with asyncio.timeout(PATIENCE_S):
        while sessions.deliver is None:  # noqa: ASYNC110 - the other side's state
            await asyncio.sleep(0.01)
        sessions.deliver(program_frames.Replaced())
        with pytest.raises(RuntimeFailure, match="another process"):
            await task


class Inserting(AskingClient):
    """Inserts from two callbacks at once."""

    async def on_start(self) -> None:
        self.outcome = await asyncio.gather(*(self.insert([(key, 1)]) for key in "ab"))


async def test_inserts_of_one_process_do_not_overtake_each_other(api: Api, kept: Kept) -> None:
    """The second would make the first one's position old, and its records would be taken for doubles."""
    take, away = kept.insert, [True]

    async def insert(producer: str, position: int, lines: list[bytes], stamp: str = "") -> int:
        if away:
            away.clear()
            raise Unreachable("the agent is starting")
        newest = kept.position(producer)
        return newest if newest and position <= newest else await take(producer, position, lines, stamp)

    kept.insert = insert  # type: ignore[method-assign]  # records the inserts
    job = Inserting(f"{api.host}:{api.port}")
    await serving(job, lambda: job.outcome is not None)
    assert job.outcome == [1, 2]
    found = [json.loads(line) for _, _, lines in kept.taken for line in lines]
    assert [each["key"] for each in found] == ["a", "b"]
    assert [each["ts"] for each in found] == kept.stamps, "the agent gives them its own time"


async def test_a_program_without_an_agent_to_attach_to_fails_at_once() -> None:
    with pytest.raises(Unreachable, match="no agent answers"):
        await AskingClient("127.0.0.1:9").serve()
