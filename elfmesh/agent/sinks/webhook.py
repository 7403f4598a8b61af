"""Sink for a webhook: one POST request per interval, with JSON and an idempotency key.

  POST URL    Idempotency-Key: "shop/top:INCARNATION:57:1"     the object that `elf results -o json` prints,
                                                              with "incarnation"; or {"job", "lost", ...}

With `early = true` each line of early rows is a request of its own, with "early-EPOCH-REV" as the last part
of its key. The sink stores no position for it, and sends it again after a restart while its window is open.

The positions are on the agent's disk. HTTP has no transactions, so an interval whose answer was lost is sent
again with the same key. A position advances after the receiver has answered 2xx. See guarantees D-5, D-17.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import partial
from typing import Any

from elfmesh.agent.sinks.base import (
    LogName,
    LostIntervals,
    Position,
    RecordRefused,
    SinkItem,
    admit,
    behind,
    past,
)
from elfmesh.agent.sinks.config import WebhookSink
from elfmesh.agent.sinks.http_post import HttpPost, StoredPositions
from elfmesh.ql.values.row_json import encode_json
from elfmesh.storage.failpoints import reach
from elfmesh.storage.storage import DiskStorage


class Webhook:
    """Sink for a webhook; `storage` holds the positions."""

    def __init__(self, name: str, config: WebhookSink, storage: DiskStorage) -> None:
        self._config = config
        self._positions, self._post = StoredPositions(name, storage), HttpPost(config)
        self._shown: dict[LogName, dict[int, tuple[int, int]]] = {}

    async def position(self, log: LogName) -> Position | None:
        return await self._positions.get(log)

    async def write(self, log: LogName, item: SinkItem) -> bool:
        position = await self.position(log)
        shown = self._shown.setdefault(log, {})
        if not admit(position, shown.get(item.record.index), item):
            return False
        bodies = await self._positions.run(partial(self._bodies, log, item))
        key = _key(log, item)
        for part, body in enumerate(bodies, 1):
            reach("sink.write", "webhook")
            await self._post.send(key if len(bodies) == 1 else f"{key}:{part}", body)
            reach("sink.written", "webhook")
        if not item.terminal:
            shown[item.record.index] = item.order
            return True
        self._shown[log] = {index: each for index, each in shown.items() if index > item.record.index}
        after = behind(position, item)
        if after is not None:
            await self._positions.put(log, after)
        return True

    async def declare(self, log: LogName, lost: LostIntervals) -> None:
        """Report lost intervals to the receiver, unless it refuses the report, then advance the position."""
        body = {"job": log.job, "incarnation": log.incarnation, "lost": [lost.first, lost.last]}
        key = f"{log.job}:{log.incarnation}:{lost.first}-{lost.last}:lost"
        with contextlib.suppress(RecordRefused):  # the agent's log contains the loss as well
            await self._post.send(key, encode_json(body | {"why": lost.why}))
        position = await self.position(log)
        await self._positions.put(log, past(position, lost))

    def ended(self, log: LogName) -> None:
        self._shown.pop(log, None)

    async def close(self) -> None:
        self._positions.close()
        await self._post.close()

    def describe(self) -> Mapping[str, Any]:
        """Return the address without path and query."""
        return self._post.describe()

    def _bodies(self, log: LogName, item: SinkItem) -> list[bytes]:
        bodies = [encode_json(shown) for shown in item.shown(log)]
        size = max(map(len, bodies))
        if size > self._config.body_bytes_max:
            raise RecordRefused(f"{size} bytes of JSON are more than body_max")
        return bodies


def _key(log: LogName, item: SinkItem) -> str:
    """Return the idempotency key of a revision. Equal keys mean the same interval or the same part of it.

    Each epoch numbers its early lines from 1 on, and their rows differ.
    """
    record = item.record
    line = f"early-{record.epoch}-{record.rev}" if record.state == "EARLY" else record.rev
    return f"{log.job}:{log.incarnation}:{record.index}:{line}"
