"""A stop that does not wait for a block that takes for ever."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any

import pytest

from elfmesh.agent.service.stopping import LEAVE_S, Stopping, leave
from elfmesh.control.protocol.events import Reply
from elfmesh.errors import Unreachable
from tests.patience import PATIENCE_S


async def test_a_stop_that_takes_too_long_ends_the_process() -> None:
    codes: SimpleQueue[int] = SimpleQueue()
    stopping = Stopping(stop_s=0.01, end=codes.put)
    stopping.ask()
    stopping.ask()
    assert stopping.asked.is_set()
    assert codes.get(timeout=PATIENCE_S) == 0
    assert codes.empty()


async def test_an_orderly_stop_is_not_cut_off() -> None:
    codes: list[int] = []
    stopping = Stopping(stop_s=0.2, end=codes.append)
    stopping.ask()
    stopping.close()
    assert stopping._timer is not None
    stopping._timer.join(PATIENCE_S)
    assert codes == []


@pytest.mark.parametrize(("state", "warnings"), [("left", 0), ("leaving", 1), ("", 1)])
async def test_an_agent_that_cannot_leave_in_time_reports_it(
    state: str, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[tuple[str, dict[str, Any], float]] = []

    async def request(*words: Any) -> Reply:
        asked.append(words)
        if not state:
            raise Unreachable("no answer")
        return Reply(0, 200, {"state": state})

    await leave(request)
    assert asked == [("leave", {"wait": LEAVE_S, "now": True}, LEAVE_S)]
    assert len(caplog.records) == warnings
