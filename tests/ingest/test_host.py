from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from elfmesh.ingest.host import InlineExecutor, ThreadExecutor


@pytest.mark.parametrize("kind", [ThreadExecutor, InlineExecutor])
async def test_work_of_one_lane_runs_in_order_and_its_errors_come_back(
    kind: type[ThreadExecutor] | type[InlineExecutor],
) -> None:
    executor = kind()
    done: list[int] = []
    await asyncio.gather(*(executor.run("store", partial(done.append, n)) for n in range(20)))
    assert done == list(range(20))
    with pytest.raises(ZeroDivisionError):
        await executor.run("compute", lambda: 1 // 0)
    on_loop = await executor.run("read", threading.current_thread) is threading.current_thread()
    assert on_loop is (kind is InlineExecutor)
    executor.close()
