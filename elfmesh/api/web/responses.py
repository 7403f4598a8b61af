"""Bodies of the HTTP API as JSON, in one spelling: what is answered, and what is asked."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import web

from elfmesh.control.jobs.records import encode_json
from elfmesh.errors import UsageError

BODY_S = 30.0
"""How long the body of a request may take to come."""


def json_response(status: int, body: dict[str, Any]) -> web.Response:
    return web.Response(status=status, body=encode_json(body), content_type="application/json")


async def json_body(request: web.Request) -> dict[str, Any]:
    """The JSON object of a request; may be called again.

    Raises:
        UsageError: there is none.
    """
    if request.content_type != "application/json":
        raise UsageError("the body is not application/json")
    if (request.content_length or 0) > request.client_max_size:  # said now, not when so many have come
        raise web.HTTPRequestEntityTooLarge(request.client_max_size, request.content_length or 0)
    try:
        async with asyncio.timeout(BODY_S):
            text = await request.text()
        body = json.loads(text)
        if "\\ud" in text.lower():  # half of a pair is no text: nothing could write it down or send it on
            json.dumps(body, ensure_ascii=False).encode()
    except TimeoutError:
        raise UsageError(f"the body did not come within {BODY_S:g} s") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise UsageError("the body is not a JSON object")
    return body
