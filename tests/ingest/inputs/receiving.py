"""What the tests of receivers share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from elfmesh.ingest.host import ThreadExecutor
from elfmesh.ingest.inputs.host import Inputs
from elfmesh.ingest.stream_settings import StreamConfig
from tests.patience import PATIENCE_S


class NoFrames:
    jobs: tuple[str, ...] = ()


@asynccontextmanager
async def running(root: Path, listen: str) -> AsyncIterator[Inputs]:
    executor = ThreadExecutor(2)
    inputs = Inputs({"net": StreamConfig(listen=listen)}, root, executor)
    try:
        await inputs.start(NoFrames())  # type: ignore[arg-type]  # a frame log without jobs
        yield inputs
    finally:
        await inputs.close()
        executor.close()


def spooled(root: Path) -> bytes:
    return (root / "net" / "spool.log").read_bytes()


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "nothing more comes"
        await asyncio.sleep(0.01)
