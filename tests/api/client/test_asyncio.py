"""The client of asyncio does the same as the blocking one."""

from __future__ import annotations

import pytest

from elfmesh.api.client.asyncio import AsyncClient
from elfmesh.errors import ElfError
from tests.cli.remote import TEXT, api, backend, job

__all__ = ["api", "backend", "job"]


async def test_the_async_client_does_the_same(api: str) -> None:
    async with AsyncClient(api) as client:
        assert (await client.apply(TEXT))["version"] == 1
        found = [each["interval"]["index"] async for each in client.results("shop/top")]
        assert found == [0, 1, 2, 3, 4]
        with pytest.raises(ElfError):
            await client.describe("no/job")
