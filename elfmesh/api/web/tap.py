"""Live lines of a stream over HTTP: POST /v1/tap.

    {"texts": [ELF-QL, ...], "stream", "limit", "rate", "seconds", "beginning"} -> JSON lines

A line of the log is shown if it passes the WHERE of every text; what else a text says does not matter. The
first text says which stream, unless `stream` chooses one of those it reads.

Owns what a tap may ask for; what it may cost is the agent's business (`agent.tap`).
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import Annotated, Any, Protocol, TypeAlias

import msgspec
from aiohttp import web

from elfmesh.api.web.results import NDJSON
from elfmesh.control.answers import error_of
from elfmesh.control.jobs.manifest import TEXT_BYTES_MAX
from elfmesh.control.jobs.records import encode_json
from elfmesh.errors import ElfError, UsageError

_Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=TEXT_BYTES_MAX)]
LIMIT_MAX, RATE_MAX, SECONDS_MAX = 100_000, 200, 3600


class TapRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be shown.

    Attributes:
        texts: statements; lines pass the WHERE of all.
        stream: which of the first text's; None: the first that the agent has.
        limit: lines, in all.
        rate: lines a second; of more, a sample is shown.
        seconds: after these it ends.
        beginning: show what is there already, not only what comes.
    """

    texts: Annotated[
        tuple[Annotated[str, msgspec.Meta(max_length=TEXT_BYTES_MAX)], ...],
        msgspec.Meta(min_length=1, max_length=2),
    ]
    stream: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=LIMIT_MAX)] = LIMIT_MAX
    rate: Annotated[int, msgspec.Meta(ge=1, le=RATE_MAX)] = 20
    seconds: Annotated[float, msgspec.Meta(gt=0, le=SECONDS_MAX)] = SECONDS_MAX
    beginning: bool = False


class TapSource(Protocol):
    """Who shows lines."""

    def lines(self, request: TapRequest) -> AsyncGenerator[dict[str, Any], None]: ...


async def tap(request: web.Request, source: TapSource, body: Mapping[str, Any]) -> web.StreamResponse:
    """Answer with lines until one side has had enough."""
    try:
        wanted = msgspec.convert(body, TapRequest)
    except msgspec.ValidationError as error:
        raise UsageError(str(error)) from None
    async with contextlib.aclosing(source.lines(wanted)) as lines:
        first = await anext(lines)  # what is wrong with the question is an answer of its own
        response = web.StreamResponse(headers={"Content-Type": NDJSON, "Cache-Control": "no-store"})
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            await response.write(encode_json(first) + b"\n")
            try:
                async for line in lines:
                    await response.write(encode_json(line) + b"\n")
            except ElfError as error:
                await response.write(encode_json(error_of(error)) + b"\n")
            await response.write_eof()
        return response
