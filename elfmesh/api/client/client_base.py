"""Functions that all clients of an agent's HTTP API share: addresses, URLs of jobs, and errors in answers."""

from __future__ import annotations

import http.client
import json
import os
import re
from typing import Any
from urllib.parse import quote, urlencode

from elfmesh.control.jobs.manifest import split_name
from elfmesh.control.requests.verbs import VERBS, Scope
from elfmesh.errors import ElfError, QueryError, RuntimeFailure, Unreachable, UsageError

API = "127.0.0.1:7401"
"""Default address of an agent's API."""


def api_address(address: str | None) -> tuple[str, int]:
    """Return host and port of "HOST:PORT", of ELF_API, or of the default.

    Raises:
        UsageError: the text is not an address.
    """
    text = address or os.environ.get("ELF_API") or API
    host, _, port = re.sub(r"^https?://", "", text).rstrip("/").rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        hint = "Give the address of an agent's API, such as 127.0.0.1:7401."
        raise UsageError(f"{text!r} is not HOST:PORT", where="--api", hint=hint)
    return host.strip("[]"), int(port)


def api_name(address: str | None) -> str:
    """Return `address` as HOST:PORT in canonical form. Raises as `api_address`."""
    host, port = api_address(address)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def error_from(status: int, body: object, what: str) -> ElfError:
    """Return the error that an agent's answer represents."""
    reply = body if isinstance(body, dict) else {}
    message = str(reply.get("error") or f"{what}: status {status}")
    hint, where, code = (
        str(reply.get("hint") or ""),
        str(reply.get("where") or ""),
        reply.get("code"),
    )
    if code == QueryError.exit_code:
        line, column = (_int(reply.get(name)) for name in ("line", "column"))
        source = where.removesuffix(f":{line}:{column}") or "query"
        return QueryError(message, line=line, column=column, hint=hint, source=source)
    kind = {2: UsageError, 69: Unreachable}.get(code if isinstance(code, int) else 1, RuntimeFailure)
    if status == http.client.SERVICE_UNAVAILABLE:
        kind = Unreachable
    return kind(message, where=where, hint=hint)


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0


def job_path(job: str) -> str:
    """Return the URL path of a job named "shop/top", "shop.top" or "top".

    Raises:
        UsageError: the text is not the name of a job.
    """
    try:
        namespace, name = split_name(job)
    except ValueError as error:
        raise UsageError(str(error), hint="A job is named NAMESPACE/NAME, such as shop/top.") from None
    return f"/v1/jobs/{quote(namespace, safe='')}/{quote(name, safe='')}"


def parse_json(data: bytes) -> object:
    """Parse a JSON text; return None if it is malformed."""
    try:
        return json.loads(data)
    except ValueError:
        return None


def unreachable(address: str, error: BaseException) -> Unreachable:
    """Return the error for an address at which no agent answers."""
    if isinstance(error, http.client.HTTPException) and not isinstance(error, http.client.RemoteDisconnected):
        return Unreachable(
            f"the server at {address} is not an agent's API",
            hint="An agent's API address is the `api=` of its ready line; the `overlay=` one is for agents.",
        )
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if isinstance(error, http.client.RemoteDisconnected | ConnectionResetError):
        reason += "; if it requires a certificate, use --cert, --key and --ca"
    return Unreachable(
        f"no agent answers at {address} ({reason})",
        hint="Start one with `elf agent`, or name another with --api HOST:PORT or ELF_API.",
    )


def request_of(verb: str, job: str = "", **fields: Any) -> tuple[str, str]:
    """Return method and target of a verb with the parameters that are not None.

    Raises:
        UsageError: the verb does not exist, or `job` is not the name of a job.
    """
    if verb not in VERBS or not VERBS[verb].route:
        raise UsageError(f"{verb!r} is not one of {', '.join(name for name in VERBS if VERBS[name].route)}")
    path = VERBS[verb].path
    if path.startswith(Scope.JOB):
        path = job_path(job) + path.removeprefix(Scope.JOB)
    given = {name: int(value) if isinstance(value, bool) else value for name, value in fields.items()}
    query = urlencode({name: value for name, value in given.items() if value is not None})
    return VERBS[verb].method, f"{path}?{query}" if query else path
