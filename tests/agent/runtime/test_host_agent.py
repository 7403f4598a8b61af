"""What ends an agent, and what it may take of this host."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest

from elfmesh.agent.runtime.host_agent import _fatal, _first, _formats_of, _memory
from elfmesh.agent.settings.config import AgentConfig
from elfmesh.errors import ElfError, RuntimeFailure, StorageError


def config(tmp_path: Path, **settings: object) -> AgentConfig:
    return msgspec.convert({"data_dir": str(tmp_path), **settings}, AgentConfig)


async def test_the_first_that_comes_ends_the_wait_and_only_own_waits_are_cancelled() -> None:
    event, failed = asyncio.Event(), asyncio.get_running_loop().create_future()
    ended: list[str] = []

    async def long() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("long")

    event.set()
    await _first(long(), event.wait(), failed)
    await asyncio.sleep(0)
    assert ended == ["long"]
    assert not failed.done(), "it belongs to the caller"
    failed.set_result(None)
    await _first(asyncio.Event().wait(), failed)


@pytest.mark.parametrize("error", [StorageError("disk"), RuntimeFailure("so it is")])
def test_an_error_of_ours_ends_the_agent_as_it_is(error: ElfError) -> None:
    assert _fatal(error) is error


def test_another_error_is_a_bug_and_keeps_its_trace() -> None:
    cause = KeyError("no")
    error = _fatal(cause)
    assert (error.message, error.hint) == ("KeyError: 'no'", "This is a bug in elfmesh.")
    assert error.__cause__ is cause


def test_open_intervals_have_the_memory_and_disk_of_the_limits(tmp_path: Path) -> None:
    with_disk = config(tmp_path, limits={"memory": "64 MB", "spill": "1 MB", "job_share": 0.5})
    stack = AsyncExitStack()
    budget = _memory(with_disk, stack)
    assert budget.limit_bytes == with_disk.limits.panes_bytes
    assert budget.store is not None
    asyncio.run(stack.aclose())
    without = _memory(config(tmp_path, limits={"spill": "0 MB"}), AsyncExitStack())
    assert without.store is None


def test_fields_that_are_denied_are_hidden_in_every_stream(tmp_path: Path) -> None:
    both = {name: {"path": name, "format": "json"} for name in ("a", "b")}
    settings = config(tmp_path, streams=both, fields={"deny": ["secret"]})
    new_format = _formats_of(settings)
    one, other = (new_format(name, stream) for name, stream in settings.streams.items())
    assert one.hide is other.hide
    assert one.hide is not None
