from __future__ import annotations

import asyncio

import pytest

from tests.sim.world import vloop


def test_a_day_passes_at_once_and_timers_fire_in_order() -> None:
    seen: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append((name, asyncio.get_running_loop().time()))

    async def main() -> None:
        await asyncio.gather(sleeper("c", 86_400), sleeper("a", 1), sleeper("b", 60))

    vloop.run(main())
    assert [name for name, _ in seen] == ["a", "b", "c"]
    assert [round(at) for _, at in seen] == [1, 60, 86_400]


def test_waiting_for_nothing_is_reported_instead_of_hanging() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(vloop.DeadlockError):
        vloop.run(main())
