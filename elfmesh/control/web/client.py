"""The client of an agent's HTTP API for asyncio programs.

Owns the awaiting; addresses, paths and errors are those of client.py.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlencode

import aiohttp

from elfmesh.control.client import (
    REVISION,
    TIMEOUT_S,
    api_address,
    error_from,
    job_path,
    parse_json,
    unreachable,
)


class AsyncClient:
    """As `Client`, for asyncio programs; use it as an async context manager.

    Args:
        address: "HOST:PORT" of an agent's API.
        timeout_s: how long an answer may take.
    """

    def __init__(self, address: str | None = None, *, timeout_s: float = TIMEOUT_S) -> None:
        host, port = api_address(address)
        self._base = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        self._timeout_s = timeout_s
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> AsyncClient:
        self._session = aiohttp.ClientSession()
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def apply(self, text: str, *, creator: str | None = None, dry_run: bool = False) -> dict[str, Any]:
        """Submit a job; see `Client.apply`."""
        body: dict[str, Any] = {"text": text, "dry_run": dry_run}
        if creator:
            body["creator"] = creator
        return await self._ask("POST", "/v1/jobs", body)

    async def get(self, kind: str) -> list[dict[str, Any]]:
        """All "jobs", "agents", "streams" or "trees"."""
        found: list[dict[str, Any]] = (await self._ask("GET", f"/v1/{kind}"))[kind]
        return found

    async def describe(self, job: str) -> dict[str, Any]:
        """Everything about a job."""
        return await self._ask("GET", job_path(job))

    async def delete(self, job: str) -> dict[str, Any]:
        """End a job and forget its results."""
        return await self._ask("DELETE", job_path(job))

    async def pause(self, job: str) -> dict[str, Any]:
        """Agents stop reading for a job."""
        return await self._ask("POST", f"{job_path(job)}/pause")

    async def resume(self, job: str) -> dict[str, Any]:
        """Agents go on where they stopped."""
        return await self._ask("POST", f"{job_path(job)}/resume")

    async def results(
        self, job: str, *, follow: bool = False, start: int | None = None, state: str = "final"
    ) -> AsyncIterator[dict[str, Any]]:
        """The intervals of a job, oldest first; with `follow` for ever; `state` as in `Client.results`."""
        revision = 0
        while True:
            wait = 20.0 if follow else 0.0
            query: dict[str, Any] = {"limit": 100, "wait": wait, "state": state, "revision": revision}
            query |= {} if start is None else {"from": start}
            target = f"{job_path(job)}/results?{urlencode(query)}"
            status, text, headers = await self._request("GET", target, None, wait)
            if status != http.client.OK:
                raise error_from(status, parse_json(text), job)
            revision = int(headers.get(REVISION, 0))
            lines = text.splitlines()
            for line in lines:
                interval = json.loads(line)
                if interval["state"] != "TENTATIVE":
                    start = interval["interval"]["index"] + 1
                yield interval
            if not lines and not follow:
                return

    async def _ask(self, method: str, target: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        status, text, _ = await self._request(method, target, body, 0.0)
        answer = parse_json(text)
        if status != http.client.OK or not isinstance(answer, dict):
            raise error_from(status, answer, target)
        return answer

    async def _request(
        self, method: str, target: str, body: dict[str, Any] | None, wait_s: float
    ) -> tuple[int, bytes, Mapping[str, str]]:
        if self._session is None:
            raise RuntimeError("use `async with AsyncClient(...) as client`")
        timeout = aiohttp.ClientTimeout(total=self._timeout_s + wait_s)
        try:
            async with self._session.request(
                method, self._base + target, json=body, timeout=timeout
            ) as response:
                return response.status, await response.read(), response.headers
        except (aiohttp.ClientError, TimeoutError) as error:
            raise unreachable(self._base.removeprefix("http://"), error) from None
