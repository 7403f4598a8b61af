"""Sink for a webhook: one POST request per interval, with JSON and an idempotency key.

  POST URL    Idempotency-Key: "shop/top:INCARNATION:57:1"     the object that `elf results -o json` prints,
                                                              with "incarnation"; or {"job", "lost", ...}

With `early = true` each line of early rows is a request of its own, with "early-EPOCH-REV" as the last part
of its key. The sink stores no position for it, and sends it again after a restart while its window is open.

The positions are on the agent's disk. HTTP has no transactions, so an interval whose answer was lost is sent
again with the same key. A position advances after the receiver has answered 2xx. Redirects are not followed,
and at most `ANSWER_BYTES` of an answer are read and discarded. See guarantees D-5, D-17.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec

from elfmesh.agent.sinks.addresses import CheckedResolver, Forbidden
from elfmesh.agent.sinks.base import (
    LogName,
    LostIntervals,
    Position,
    RecordRefused,
    SinkItem,
    Unavailable,
    admit,
    behind,
    past,
)
from elfmesh.agent.sinks.config import WebhookSink
from elfmesh.control.jobs.records import encode_json
from elfmesh.errors import ProtocolError, StorageError
from elfmesh.ingest.worker_thread import WorkerThread
from elfmesh.storage.failpoints import reach
from elfmesh.storage.storage import DiskStorage
from elfmesh.sums import json_checked, json_with_sum

T = TypeVar("T")
ANSWER_BYTES = 4096
REFUSED = frozenset({400, 411, 413, 414, 415, 422, 431, 501})
"""Status codes that a repeated request with the same body would get again. Others may change: a corrected
password, a deployed path, a restarted server."""


class Webhook:
    """Sink for a webhook; `storage` holds the positions."""

    def __init__(self, name: str, config: WebhookSink, storage: DiskStorage) -> None:
        self._name, self._config, self._storage = name, config, storage
        self._resolver = CheckedResolver(config.allow)
        self._thread = WorkerThread(name)
        self._session: aiohttp.ClientSession | None = None
        self._shown: dict[LogName, dict[int, tuple[int, int]]] = {}

    async def position(self, log: LogName) -> Position | None:
        return await self._run(partial(self._read, log))

    async def write(self, log: LogName, item: SinkItem) -> bool:
        position = await self.position(log)
        shown = self._shown.setdefault(log, {})
        if not admit(position, shown.get(item.record.index), item):
            return False
        bodies = await self._run(partial(self._bodies, log, item))
        key = _key(log, item)
        for part, body in enumerate(bodies, 1):
            reach("sink.write", "webhook")
            await self._post(key if len(bodies) == 1 else f"{key}:{part}", body)
            reach("sink.written", "webhook")
        if not item.terminal:
            shown[item.record.index] = item.order
            return True
        self._shown[log] = {index: each for index, each in shown.items() if index > item.record.index}
        after = behind(position, item)
        if after is not None:
            await self._run(partial(self._store, log, after))
        return True

    async def declare(self, log: LogName, lost: LostIntervals) -> None:
        """Report lost intervals to the receiver, unless it refuses the report, then advance the position."""
        body = {"job": log.job, "incarnation": log.incarnation, "lost": [lost.first, lost.last]}
        key = f"{log.job}:{log.incarnation}:{lost.first}-{lost.last}:lost"
        with contextlib.suppress(RecordRefused):  # the agent's log contains the loss as well
            await self._post(key, encode_json(body | {"why": lost.why}))
        position = await self.position(log)
        await self._run(partial(self._store, log, past(position, lost)))

    def ended(self, log: LogName) -> None:
        self._shown.pop(log, None)

    async def close(self) -> None:
        self._thread.close()
        if self._session is not None:
            await self._session.close()

    def describe(self) -> Mapping[str, Any]:
        """Return the address without path and query, which are the secret of many webhooks."""
        url = urlsplit(self._config.url)
        return {"url": f"{url.scheme}://{url.hostname}" + (f":{url.port}" if url.port else "")}

    # -- positions, in the thread --------------------------------------------------------------------------

    async def _run(self, call: Callable[[], T]) -> T:
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

    def _bodies(self, log: LogName, item: SinkItem) -> list[bytes]:
        bodies = [encode_json(shown) for shown in item.shown(log)]
        size = max(map(len, bodies))
        if size > self._config.body_bytes_max:
            raise RecordRefused(f"{size} bytes of JSON are more than body_max")
        return bodies

    # -- requests ------------------------------------------------------------------------------------------

    async def _post(self, key: str, body: bytes) -> None:
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
            await self._resolver.check(self._config.url)
            async with self._session.post(
                self._config.url, data=body, headers=headers, allow_redirects=False
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


def _key(log: LogName, item: SinkItem) -> str:
    """Return the idempotency key of a revision. Equal keys mean the same interval or the same part of it.

    Each epoch numbers its early lines from 1 on, and their rows differ.
    """
    record = item.record
    line = f"early-{record.epoch}-{record.rev}" if record.state == "EARLY" else record.rev
    return f"{log.job}:{log.incarnation}:{record.index}:{line}"
