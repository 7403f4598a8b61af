"""Answers of the HTTP API as JSON, in one spelling."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from elfmesh.control.results.records import encode_json


def json_response(status: int, body: dict[str, Any]) -> web.Response:
    """A status and a JSON object."""
    return web.Response(status=status, body=encode_json(body), content_type="application/json")
