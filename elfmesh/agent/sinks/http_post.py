"""POST requests of JSON for sinks, and the positions that such sinks store on the agent's disk.

HTTP has no transactions, so a request whose answer was lost is sent again with the same key. Redirects are
not followed, and at most `ANSWER_BYTES` of an answer are read and discarded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec

from elfmesh.agent.sinks.addresses import CheckedResolver, Forbidden
from elfmesh.agent.sinks.base import LogName, Position, RecordRefused, Unavailable
from elfmesh.errors import ProtocolError, StorageError
from elfmesh.ingest.worker_thread import WorkerThread
from elfmesh.storage.storage import DiskStorage
from elfmesh.sums import json_checked, json_with_sum

T = TypeVar("T")
ANSWER_BYTES = 4096
REFUSED = frozenset({400, 411, 413, 414, 415, 422, 431, 501})
"""Status codes that a repeated request with the same body would get again. Others may change: a corrected
password, a deployed path, a restarted server."""


class PostSettings(Protocol):
    """Settings of requests."""

    @property
    def url(self) -> str: ...
    @property
    def headers(self) -> dict[str, str]: ...
    @property
    def allow(self) -> tuple[str, ...]: ...
    @property
    def timeout(self) -> str: ...
    @property
    def timeout_s(self) -> float: ...


class StoredPositions:
    """Positions of one sink, read and written in a thread."""

    def __init__(self, name: str, storage: DiskStorage) -> None:
        self._name, self._storage = name, storage
        self._thread = WorkerThread(name)

    async def get(self, log: LogName) -> Position | None:
        """Return the position in a log. Raises Unavailable if it is damaged."""
        return await self.run(partial(self._read, log))

    async def put(self, log: LogName, position: Position) -> None:
        """Store a position; durable on return. Raises Unavailable."""
        await self.run(partial(self._store, log, position))

    def close(self) -> None:
        self._thread.close()

    async def run(self, call: Callable[[], T]) -> T:
        """Call something in the thread."""
        try:
            return await self._thread.run(call)
        except StorageError as error:
            raise Unavailable(str(error)) from None

    def _place(self, log: LogName) -> str:
        return f"{self._name}.positions/{log.job.replace('/', '.')}/{log.incarnation}"

    def _read(self, log: LogName) -> Position | None:
        data = self._storage.read(self._place(log))
        if data is None:
            return None
        try:
            return msgspec.json.decode(json_checked(data), type=Position)
        except (msgspec.MsgspecError, ProtocolError) as error:
            where = self._storage.where(self._place(log))
            raise Unavailable(f"its position is damaged ({error}): {where}") from None

    def _store(self, log: LogName, position: Position) -> None:
        self._storage.write(self._place(log), json_with_sum(msgspec.json.encode(position)))


class HttpPost:
    """Client of one receiver."""

    def __init__(self, config: PostSettings, path: str = "") -> None:
        self._config, self._url = config, config.url.rstrip("/") + path if path else config.url
        self._resolver = CheckedResolver(config.allow)
        self._session: aiohttp.ClientSession | None = None

    def describe(self) -> Mapping[str, Any]:
        """Return the address without path and query, which are the secret of many webhooks."""
        url = urlsplit(self._config.url)
        return {"url": f"{url.scheme}://{url.hostname}" + (f":{url.port}" if url.port else "")}

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def send(self, key: str, body: bytes) -> None:
        """Send a body with its idempotency key.

        Raises:
            RecordRefused: the receiver will never accept it.
            Unavailable: it did not accept it now, or the answer was lost.
        """
        if self._session is None:
            connector = aiohttp.TCPConnector(
                resolver=self._resolver,
                limit=8,
                use_dns_cache=False,
                socket_factory=self._resolver.open_socket,
            )
            timeout = aiohttp.ClientTimeout(total=self._config.timeout_s)
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=timeout,
                trust_env=False,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                max_line_size=ANSWER_BYTES,
                max_field_size=ANSWER_BYTES,
            )
        headers = {**self._config.headers, "Content-Type": "application/json", "Idempotency-Key": f'"{key}"'}
        try:
            await self._resolver.check(self._url)
            async with self._session.post(
                self._url, data=body, headers=headers, allow_redirects=False
            ) as response:
                await response.content.read(ANSWER_BYTES)
                status = response.status
                if not response.content.at_eof():
                    response.close()
        except asyncio.TimeoutError:  # noqa: UP041 - aiohttp's own is both
            raise Unavailable(f"no answer within {self._config.timeout}") from None
        except (aiohttp.ClientError, Forbidden) as error:
            cause = getattr(error, "os_error", error)
            reason = getattr(cause, "strerror", None) or f"{type(error).__name__}: {error}"
            raise Unavailable(reason[:300]) from None
        if status in REFUSED:
            raise RecordRefused(f"the receiver answered {status}")
        if not 200 <= status < 300:
            raise Unavailable(f"the receiver answered {status}")
