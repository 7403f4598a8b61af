"""A backend of the API that needs no agent: one job, its results in memory."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from aiohttp import web

from elfmesh.api.app import make_app
from elfmesh.control.jobs.pages import encode_page
from elfmesh.control.jobs.records import NOT_COUNTED, ResultRecord, counts_dict
from elfmesh.control.protocol.events import Reply
from elfmesh.errors import Unreachable
from elfmesh.ql.values.plain_ipc import table_to_ipc
from tests.patience import PATIENCE_S

SECOND = 1_000_000
PAGE_RECORDS = 3
RECORDED = Path(__file__).parent / "protocol" / "test_replies.jsonl"


def recorded(verb: str) -> dict[str, Any]:
    """A reply of the verb as its handler has sent it, {} if there is none."""
    found = (line.split(": 200 ", 1) for line in RECORDED.read_text().splitlines() if ": 200 " in line)
    return next((json.loads(body) for name, body in found if name.endswith(f": {verb}")), {})


class FakeBackend:
    """Answers for the job "shop/top"; `publish` adds an interval."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.records: list[tuple[ResultRecord, bytes]] = []
        self.expired: int | None = None
        self.deleted = False
        self.incarnation = "a1"
        self.remade_after: int | None = None
        """Pages of results after which the job is another one."""
        self.down = 0
        self.loop: asyncio.AbstractEventLoop
        """Where it is served, once it is."""
        self.replies: dict[str, Reply] = {}
        self.changed = asyncio.Condition()

    def publish(self, index: int, table: pa.Table, **fields: Any) -> None:
        record = ResultRecord(
            job="shop/top",
            index=index,
            start_us=index * 10 * SECOND,
            end_us=(index + 1) * 10 * SECOND,
            counts=counts_dict((table.num_rows, *NOT_COUNTED[1:])),
            **fields,
        )
        self.records.append((record, table_to_ipc(table)))

    def lists(self, verb: str, rows: list[dict[str, Any]], silent: int = 0) -> None:
        """Answer a question to all agents: eight of them, of which `silent` do not answer."""
        asked = {"answered": 8 - silent, "expected": 8}
        self.replies[verb] = Reply(0, 200, {("jobs" if verb == "list" else verb): rows, "asked": asked})

    async def publish_now(self, index: int, table: pa.Table) -> None:
        async with self.changed:
            self.publish(index, table)
            self.changed.notify_all()

    async def request(self, verb: str, body: dict[str, Any], timeout_s: float = 30.0) -> Reply:
        self.asked.append((verb, body))
        if self.down:
            self.down -= 1
            raise Unreachable("no answer")
        if verb in self.replies:
            return self.replies[verb]
        if body.get("job", "shop/top") != "shop/top" or self.deleted:
            return Reply(0, 404, {"error": "there is no such job", "where": "", "hint": "", "code": 1})
        if verb == "results":
            return await self._results(body)
        if verb == "schema":
            return self._schema()
        return Reply(0, 200, recorded(verb) | {"verb": verb, **body})

    async def _results(self, body: dict[str, Any]) -> Reply:
        start = body.get("from", -(2**62))
        if body.get("strict") and self.expired is not None and start <= self.expired:
            return Reply(0, 410, {"error": f"interval {start} is not kept any more", "code": 1})
        if body.get("wait"):
            async with self.changed:
                try:
                    async with asyncio.timeout(float(body["wait"])):
                        await self.changed.wait_for(
                            lambda: self.deleted or any(each[0].index >= start for each in self.records)
                        )
                except TimeoutError:
                    pass
        if self.deleted:
            return Reply(0, 404, {"error": "there is no such job", "code": 1})
        stop = body.get("to", 2**62) + 1
        found = [each for each in self.records if start <= each[0].index < stop]
        found = found[: min(int(body.get("limit", 100)), PAGE_RECORDS)]
        following = found[-1][0].index + 1 if found else max(start, 0)
        indices = [each[0].index for each in self.records]
        body = {"earliest": min(indices, default=0), "latest": max(indices, default=-1)}
        body["incarnation"] = self.incarnation
        if self.remade_after is not None:
            self.remade_after -= 1
            self.incarnation = "a1" if self.remade_after > 0 else "b2"
        return Reply(0, 200, {**body, "next": following, "expired": self.expired}, encode_page(found))

    def _schema(self) -> Reply:
        if not self.records:
            return Reply(0, 409, {"error": "this job has no result yet", "code": 1})
        from elfmesh.ql.values.plain_ipc import ipc_schema

        schemas = [ipc_schema(rows) for _, rows in self.records]
        merged = pa.unify_schemas(schemas, promote_options="permissive").serialize().to_pybytes()
        encoded = base64.b64encode(merged).decode()
        return Reply(0, 200, {**recorded("schema"), "arrow": encoded, "incarnation": self.incarnation})


@contextmanager
def served(backend: FakeBackend) -> Iterator[str]:
    """The API over a backend in a thread of its own; yields its address."""
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    address: list[str] = []
    stop = asyncio.Event()

    async def main() -> None:
        backend.changed = asyncio.Condition()
        runner = web.AppRunner(make_app(backend), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        address.append(f"{host}:{port}")
        ready.set()
        await stop.wait()
        await runner.cleanup()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(main())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(PATIENCE_S)
    backend.loop = loop
    try:
        yield address[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE_S)


def table(*rows: tuple[str, int]) -> pa.Table:
    return pa.table(
        {
            "product": pa.array([name for name, _ in rows], pa.string()),
            "hits": pa.array([hits for _, hits in rows], pa.int64()),
        }
    )
