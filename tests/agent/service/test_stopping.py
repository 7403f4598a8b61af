"""A stop that does not wait for a block that takes for ever."""

from __future__ import annotations

from queue import SimpleQueue

from elfmesh.agent.service.stopping import Stopping
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
