"""Bodies of the HTTP API as JSON, in one spelling: what is answered, and what is asked."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from elfmesh.control.results.records import encode_json
from elfmesh.errors import UsageError


def json_response(status: int, body: dict[str, Any]) -> web.Response:
    """A status and a JSON object."""
    return web.Response(status=status, body=encode_json(body), content_type="application/json")


async def json_body(request: web.Request) -> dict[str, Any]:
    """The JSON object of a request; may be called again.

    Raises:
        UsageError: there is none.
    """
    if request.content_type != "application/json":
        raise UsageError("the body is not application/json")
    try:
        body = await request.json()
    except ValueError as error:
        raise UsageError(f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise UsageError("the body is not a JSON object")
    return body
