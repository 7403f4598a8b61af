"""HTTP input: lines in the body of a POST; the answer is 200 only when they are durable.

    curl --data-binary @events.ndjson http://127.0.0.1:8080/

A body (plain or gzip) is stored completely or not at all, so the sender may repeat it after any other answer
than 200. 413: the decompressed body, or a line of it, exceeds the limit; 400: broken gzip; 415: another
encoding; 429: too many concurrent requests; 503: the spool has no room. If a connection breaks without an
answer and the sender repeats the body, it may count twice.

A `Reading` states which lines a body has, and how the sender's protocol expects its answers. Lines are those
of the body here, and log records in `otlp`.
"""

from __future__ import annotations

import asyncio
import socket
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from aiohttp import web

from elfmesh.errors import RemoteError
from elfmesh.ingest.inputs.writer import Counters, SpoolWriter
from elfmesh.ingest.sources.compressed import GZIP_WINDOW_BITS
from elfmesh.limits import LINE_BYTES_MAX

BODY_BYTES_MAX = 16 << 20
REQUESTS_MAX = 32
"""Maximum number of concurrent requests; together with the limit of a body this bounds their memory."""

BODY_S = 60.0
"""Time limit for a body, because a slow sender occupies one of few slots."""

RETRY_S = 5
READ_BYTES = 64 << 10


class BodyRefused(RemoteError):
    """The body is not stored; the answer has this status and reason."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


@dataclass(frozen=True, slots=True)
class BodyLines:
    """Lines of a body, without newlines; `rejected` records of it are dropped, for the reason `why`."""

    lines: list[bytes]
    rejected: int = 0
    why: str = ""


class RequestSlots:
    """The requests that one input handles at a time, at most `REQUESTS_MAX`."""

    def __init__(self, counters: Counters) -> None:
        self._counters, self._taken = counters, 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Hold a slot for a request. Raises BodyRefused if none is free."""
        if self._taken >= REQUESTS_MAX:
            raise BodyRefused(429, "too many requests at once")
        self._taken += 1
        self._counters.connections += 1
        try:
            yield
        finally:
            self._taken -= 1
            self._counters.connections -= 1


class Reading(Protocol):
    """Protocol of the senders of an HTTP input.

    Attributes:
        route: paths that are served, as aiohttp writes them.
    """

    route: str

    async def lines(self, body: bytes, content_type: str) -> BodyLines:
        """Return the lines of a decompressed body. Raises BodyRefused."""

    def accepted(self, body: BodyLines, content_type: str) -> web.Response:
        """Return the answer to a body whose lines are durable."""

    def refused(self, refusal: BodyRefused, content_type: str, headers: Mapping[str, str]) -> web.Response:
        """Return the answer to a body that is not stored."""


class PlainLines:
    """The body is lines; the answers are JSON."""

    route = "/{any:.*}"

    async def lines(self, body: bytes, content_type: str) -> BodyLines:
        return BodyLines([line for line in body.split(b"\n") if line.strip()])

    def accepted(self, body: BodyLines, content_type: str) -> web.Response:
        return web.json_response({"lines": len(body.lines)})

    def refused(self, refusal: BodyRefused, content_type: str, headers: Mapping[str, str]) -> web.Response:
        return web.json_response({"error": refusal.why}, status=refusal.status, headers=headers)


class Posts:
    """Handler of POST requests."""

    def __init__(
        self, writer: SpoolWriter, reading: Reading | None = None, *, body_bytes_max: int = BODY_BYTES_MAX
    ) -> None:
        self._writer, self._max = writer, body_bytes_max
        self._reading = reading or PlainLines()
        self._slots = RequestSlots(writer.counters)
        app = web.Application()
        app.router.add_post(self._reading.route, self._post)
        # Bodies are decompressed here, under a limit.
        self._runner = web.AppRunner(
            app, access_log=None, auto_decompress=False, shutdown_timeout=0.2, handler_cancellation=False
        )

    async def start(self, sock: socket.socket) -> None:
        await self._runner.setup()
        await web.SockSite(self._runner, sock).start()

    def look(self) -> None: ...

    async def close(self) -> None:
        await self._runner.cleanup()

    async def _post(self, request: web.Request) -> web.Response:
        try:
            with self._slots.one():
                try:
                    async with asyncio.timeout(BODY_S):
                        data = await self._body(request)
                    body = await self._reading.lines(data, request.content_type)
                    await keep(self._writer, body)
                except TimeoutError:
                    raise BodyRefused(408, f"the body did not come within {BODY_S:g} s") from None
        except BodyRefused as refusal:
            self._writer.counters.refused += 1
            headers = {"Retry-After": str(RETRY_S)} if refusal.status in (429, 503) else {}
            return self._reading.refused(refusal, request.content_type, headers)
        return self._reading.accepted(body, request.content_type)

    async def _body(self, request: web.Request) -> bytes:
        encoding = request.headers.get("Content-Encoding", "identity").lower()
        if encoding not in ("identity", "gzip"):
            raise BodyRefused(415, f"the encoding {encoding!r} is not supported; use gzip or none")
        if (request.content_length or 0) > self._max:
            raise BodyRefused(413, f"the body is over {self._max} bytes")
        gzip = _Gunzip(self._max) if encoding == "gzip" else None
        parts: list[bytes] = []
        size = 0
        async for chunk in request.content.iter_chunked(READ_BYTES):
            for part in gzip.push(chunk) if gzip else (chunk,):
                size += len(part)
                if size > self._max:
                    raise BodyRefused(413, f"the body is over {self._max} bytes")
                parts.append(part)
        if gzip is not None and gzip.begun:
            raise BodyRefused(400, "the gzip body is cut off")
        return b"".join(parts)


async def keep(writer: SpoolWriter, body: BodyLines) -> None:
    """Store the lines of a body; returns when they are durable. Raises BodyRefused."""
    writer.counters.overlong += body.rejected
    if not body.lines:
        return
    if max(map(len, body.lines)) > LINE_BYTES_MAX:
        writer.counters.overlong += 1
        raise BodyRefused(413, f"a line is longer than {LINE_BYTES_MAX} bytes")
    if writer.waiting:
        raise BodyRefused(503, writer.counters.problem)
    # The answer waits even if the request is cancelled, because queued lines will be written.
    await writer.put(b"\n".join(body.lines) + b"\n", len(body.lines))


class _Gunzip:
    """Incremental decompression of gzip, with all its members."""

    def __init__(self, step: int) -> None:
        self._step = min(step, 1 << 20)
        self._member = zlib.decompressobj(GZIP_WINDOW_BITS)
        self.begun = False

    def push(self, chunk: bytes) -> Iterator[bytes]:
        while chunk:
            self.begun = True
            try:
                part = self._member.decompress(chunk, self._step)
            except zlib.error:
                raise BodyRefused(400, "the gzip body is damaged") from None
            chunk = self._member.unconsumed_tail
            if self._member.eof:
                chunk = self._member.unused_data
                self._member, self.begun = zlib.decompressobj(GZIP_WINDOW_BITS), False
            yield part
