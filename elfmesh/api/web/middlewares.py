"""What all routes have in common: the answers to errors, and the refusal of foreign web pages."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from aiohttp import web

from elfmesh.api.web.responses import json_response
from elfmesh.control.answers import (
    BAD_REQUEST,
    FAILED,
    NOT_IMPLEMENTED,
    UNAVAILABLE,
    error_body,
    error_of,
)
from elfmesh.errors import ElfError, NotInstalled, QueryError, Unreachable, UsageError

log = logging.getLogger("elf.api")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def errors_answered(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every error of a handler by JSON with the status of its kind."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        hint = (
            "docs/operations/monitoring.md lists the routes, such as `GET /v1/health`."
            if error.status == 404
            else ""
        )
        return json_response(error.status, error_body(error.reason, where=request.path, hint=hint))
    except QueryError as error:
        return json_response(BAD_REQUEST, error_of(error))
    except UsageError as error:
        return json_response(BAD_REQUEST, error_of(error))
    except Unreachable as error:
        return json_response(UNAVAILABLE, error_of(error))
    except NotInstalled as error:
        return json_response(NOT_IMPLEMENTED, error_of(error))
    except ElfError as error:
        return json_response(FAILED, error_of(error))
    except ConnectionError:
        raise
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return json_response(
            FAILED, error_body("this is a bug in elfmesh; the agent's log has the traceback")
        )


@web.middleware
async def same_origin(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse web pages of another origin, and names that merely resolve to this address."""
    try:
        host = urlsplit(f"//{request.headers.get('Host', '')}").hostname or ""
        origin = request.headers.get("Origin")
        foreign = origin is not None and urlsplit(origin).netloc != request.headers.get("Host")
    except ValueError:  # unbalanced brackets, which browsers do not send
        host, foreign = "", True
    # Over TLS the certificate of the agent proves the name, so a name that merely resolves here
    # cannot connect.
    if foreign or not (request.secure or _is_address(host)):
        return json_response(403, error_body("requests of web pages are refused", where=request.path))
    return await handler(request)


def _is_address(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def as_it_is_called(request: web.Request, response: web.StreamResponse) -> None:
    """Forbid browsers to guess another type of content than the answer has."""
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
