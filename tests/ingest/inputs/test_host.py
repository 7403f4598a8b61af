"""The inputs of an agent."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from elfmesh.errors import RuntimeFailure, Unreachable
from elfmesh.ingest.host import ThreadExecutor
from elfmesh.ingest.inputs.host import Inputs
from elfmesh.ingest.stream_settings import StreamConfig


def test_an_address_in_use_is_reported_at_once(tmp_path: Path) -> None:
    async def start(port: int) -> None:
        executor = ThreadExecutor(1)
        try:
            Inputs({"net": StreamConfig(listen=f"tcp://127.0.0.1:{port}")}, tmp_path, executor)
        finally:
            executor.close()

    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(RuntimeFailure, match="cannot listen"),
    ):
        asyncio.run(start(taken.getsockname()[1]))


async def test_an_agent_that_starts_has_no_streams_of_programs_yet(tmp_path: Path) -> None:
    """A program repeats its insert, because it ends if the agent has no such stream."""
    executor = ThreadExecutor(1)
    inputs = Inputs({"words": StreamConfig(listen="program://a/b", format="json")}, tmp_path, executor)
    try:
        with pytest.raises(Unreachable, match="starts"):
            inputs.inserts("a/b", None)
    finally:
        await inputs.close()
        executor.close()
