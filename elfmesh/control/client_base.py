"""What all clients of an agent's HTTP API need: the URLs of jobs, and the errors that answers mean."""

from __future__ import annotations

import http.client
import json
from urllib.parse import quote

from elfmesh.control.manifest import split_name
from elfmesh.errors import ElfError, QueryError, RuntimeFailure, Unreachable, UsageError


def error_from(status: int, body: object, what: str) -> ElfError:
    """The error an agent has answered with."""
    said = body if isinstance(body, dict) else {}
    message = str(said.get("error") or f"{what}: status {status}")
    hint, where, code = str(said.get("hint") or ""), str(said.get("where") or ""), said.get("code")
    if code == QueryError.exit_code:
        line, column = (_int(said.get(name)) for name in ("line", "column"))
        source = where.removesuffix(f":{line}:{column}") or "query"
        return QueryError(message, line=line, column=column, hint=hint, source=source)
    kind = {2: UsageError, 69: Unreachable}.get(code if isinstance(code, int) else 1, RuntimeFailure)
    if status == http.client.SERVICE_UNAVAILABLE:
        kind = Unreachable
    return kind(message, where=where, hint=hint)


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0


def job_path(job: str) -> str:
    """The URL path of a job named "shop/top", "shop.top" or "top".

    Raises:
        UsageError: not the name of a job.
    """
    try:
        namespace, name = split_name(job)
    except ValueError as error:
        raise UsageError(str(error), hint="A job is named NAMESPACE/NAME, such as shop/top.") from None
    return f"/v1/jobs/{quote(namespace, safe='')}/{quote(name, safe='')}"


def parse_json(data: bytes) -> object:
    """The value of a JSON text, None if it is none."""
    try:
        return json.loads(data)
    except ValueError:
        return None
