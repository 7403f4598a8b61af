"""JSON bodies of the HTTP API: answers and requests."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import web

from elfmesh.errors import UsageError
from elfmesh.ql.values.row_json import encode_json

BODY_S = 30.0
"""Time limit for the body of a request to arrive."""


def json_response(status: int, body: dict[str, Any]) -> web.Response:
    return web.Response(status=status, body=encode_json(body), content_type="application/json")


async def json_body(request: web.Request) -> dict[str, Any]:
    """Return the JSON object of a request; may be repeated. Raises UsageError if it is not one."""
    if request.content_type != "application/json":
        raise UsageError("the body is not application/json")
    # refused at once, not after so many bytes have arrived
    if (request.content_length or 0) > request.client_max_size:
        raise web.HTTPRequestEntityTooLarge(request.client_max_size, request.content_length or 0)
    try:
        async with asyncio.timeout(BODY_S):
            text = await request.text()
        body = json.loads(text)
        # half of a surrogate pair cannot be encoded, so it could be neither stored nor forwarded
        if "\\ud" in text.lower():
            json.dumps(body, ensure_ascii=False).encode()
    except TimeoutError:
        raise UsageError(f"the body did not come within {BODY_S:g} s") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise UsageError("the body is not a JSON object")
    return body
