"""Live lines of a stream over HTTP: POST /v1/tap.

  {"texts": [ELF-QL, ...], "stream", "limit", "rate", "seconds", "beginning"} -> JSON lines

A line of the log is shown if it passes the WHERE of every text; the rest of a text is ignored. The stream is
that of the first text, unless `stream` chooses one of several.

The module owns the parameters of a tap. The agent limits its cost (`ingest/tap.py`).
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
from elfmesh.errors import ElfError, UsageError
from elfmesh.ql.values.row_json import encode_json

_Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=TEXT_BYTES_MAX)]
LIMIT_MAX, RATE_MAX, SECONDS_MAX = 100_000, 200, 3600


class TapRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of a tap.

    Attributes:
        texts: statements; lines must pass the WHERE of all.
        stream: one of the streams of the first text; None: the first one that the agent has.
        limit: maximum number of lines.
        rate: maximum number of lines per second; if there are more, a sample is shown.
        seconds: duration after which the tap ends.
        beginning: whether to start with the lines that the log already contains.
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
    """Interface of the source of lines."""

    def lines(self, request: TapRequest) -> AsyncGenerator[dict[str, Any], None]: ...


async def tap(request: web.Request, source: TapSource, body: Mapping[str, Any]) -> web.StreamResponse:
    """Stream lines until the source ends or the client disconnects."""
    try:
        wanted = msgspec.convert(body, TapRequest)
    except msgspec.ValidationError as error:
        raise UsageError(str(error)) from None
    async with contextlib.aclosing(source.lines(wanted)) as lines:
        first = await anext(lines)  # an error in the request gets its own status
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
