"""A thread of one's own: calls in order, their errors, and an end without a wait."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from elfmesh.ingest.worker_thread import WorkerThread


async def test_calls_run_one_at_a_time_in_order_off_the_loop() -> None:
    thread, seen = WorkerThread("t"), list[int]()

    def see(at: int) -> int:
        seen.append(at)
        return at

    try:
        results = await asyncio.gather(*(thread.run(partial(see, at)) for at in range(5)))
        assert results == seen == [0, 1, 2, 3, 4]
        assert await thread.run(threading.current_thread) is not threading.current_thread()
    finally:
        thread.close()


async def test_an_error_comes_back_and_the_next_call_runs() -> None:
    thread = WorkerThread("t")
    try:
        with pytest.raises(ZeroDivisionError):
            await thread.run(lambda: 1 // 0)
        assert await thread.run(lambda: 7) == 7
    finally:
        thread.close()


async def test_a_call_that_was_given_up_before_its_turn_does_not_run() -> None:
    thread, gate, seen = WorkerThread("t"), threading.Event(), list[str]()
    try:
        first = asyncio.ensure_future(thread.run(gate.wait))
        second = asyncio.ensure_future(thread.run(lambda: seen.append("ran")))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        gate.set()
        await first
        assert await thread.run(lambda: seen) == []
    finally:
        thread.close()


async def test_the_last_call_runs_behind_all_others_and_may_fail() -> None:
    thread, seen, done = WorkerThread("t"), list[str](), threading.Event()

    def last() -> None:
        seen.append("last")
        done.set()
        raise RuntimeError("it is not waited for")

    waiting = asyncio.ensure_future(thread.run(lambda: seen.append("first")))
    await asyncio.sleep(0)
    thread.close(last)
    await waiting
    await asyncio.to_thread(done.wait)
    assert seen == ["first", "last"]
