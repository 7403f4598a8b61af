from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from elfmesh.agent.disk.storage import MemoryStorage
from elfmesh.agent.host import InlineExecutor, ThreadExecutor, load_identity
from elfmesh.errors import StorageError


def test_an_identity_is_kept_and_each_life_has_a_higher_incarnation() -> None:
    storage = MemoryStorage()
    lives = []
    for _ in range(3):
        lives.append(load_identity(storage))
        storage.crash()
    assert len({life.id for life in lives}) == 1
    assert [life.incarnation for life in lives] == [1, 2, 3]
    assert load_identity(MemoryStorage()).id != lives[0].id


@pytest.mark.parametrize("content", [b"{", b'{"id":"00","incarnation":1}', b'{"id":"zz","incarnation":1}'])
def test_a_damaged_identity_is_never_replaced_silently(content: bytes) -> None:
    storage = MemoryStorage()
    storage.write("id", content)
    with pytest.raises(StorageError, match="damaged"):
        load_identity(storage)
    assert storage.read("id") == content


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
