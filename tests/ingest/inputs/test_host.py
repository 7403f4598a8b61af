"""The inputs of an agent."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from elfmesh.errors import RuntimeFailure
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
