"""The routes of the live page.

  GET  /                 redirects to /page/
  GET  /page/FILE        a file of the page, see `files`
  GET  /v1/me            -> {"name", "source", "read", "submit", "operate", "namespaces", ...}
  GET  /v1/language      -> {"streams", "jobs", "functions", "keywords"}: what a console completes
  POST /v1/check         {"text"} -> {"job", "streams", "columns", "fields", "window"}, or a query's error

/v1/me only tells the page which controls to show; each action is authorised where it is performed.
"""

from __future__ import annotations

import asyncio
import ipaddress
from functools import cache
from typing import Any

from aiohttp import web

from elfmesh import ql
from elfmesh.api.identity.identify import PRINCIPAL
from elfmesh.api.identity.principal import Role
from elfmesh.api.web.page.files import INDEX, answer, page_files
from elfmesh.api.web.responses import json_response
from elfmesh.api.web.whole_rows import Asker
from elfmesh.control.answers import OK
from elfmesh.control.jobs.manifest import TEXT_BYTES_MAX
from elfmesh.control.jobs.plan import read_job
from elfmesh.errors import UsageError

_KEYWORDS = (
    "CREATE JOB|EVERY|LATENESS|DEADLINE|ASSUME|ON STRAGGLER|AS|SELECT|DISTINCT|FROM|ON|WHERE|GROUP BY|HAVING"
    "|ORDER BY|LIMIT|JOIN|LEFT JOIN|UNION ALL|INTERVAL|CASE|WHEN|THEN|ELSE|END|AND|OR|NOT|IN|BETWEEN|LIKE"
    "|IS NULL|IS NOT NULL|DESC|ASC|SECOND|MINUTE|HOUR|DAY|FILTER|OVER|WITH|CAST|TRUE|FALSE|NULL|CORRECT|SKIP"
    "|WAIT|window_start|window_end"
)
"""Words that a console completes. The parser alone defines the language."""


async def index(request: web.Request) -> web.StreamResponse:
    """Redirect a browser from the API's address to the page."""
    raise web.HTTPFound("/page/")


async def page(request: web.Request) -> web.StreamResponse:
    await asyncio.to_thread(page_files)  # the first call compresses the files
    return answer(request, request.match_info["file"] or INDEX)


async def me(request: web.Request) -> web.StreamResponse:
    caller = request[PRINCIPAL]
    body = {
        "name": caller.name,
        "source": caller.source,
        "read": caller.may_read(),
        "submit": caller.may_operate() or Role.SUBMITTER in caller.roles,
        "operate": caller.may_operate(),
        "namespaces": ["*"] if caller.may_operate() else sorted(caller.namespaces),
        "insecure_network": _is_open(request),
    }
    return json_response(OK, body)


def _is_open(request: web.Request) -> bool:
    transport = request.transport
    if transport is None or transport.get_extra_info("ssl_object") is not None:
        return False
    here = transport.get_extra_info("sockname")
    if not isinstance(here, tuple):  # a Unix socket
        return False
    try:
        address = ipaddress.ip_address(str(here[0]).partition("%")[0])
    except ValueError:
        return True
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return not (mapped or address).is_loopback


async def language(ask: Asker) -> web.StreamResponse:
    """Return what a console completes: names of this overlay, and functions and keywords of the language."""
    streams, jobs = await asyncio.gather(ask("streams", {}), ask("list", {}))
    for reply in (streams, jobs):
        if reply.status != OK:
            return json_response(reply.status, reply.body)
    body = {
        "streams": streams.body["streams"],
        "jobs": [each["job"] for each in jobs.body["jobs"]],
        "functions": await asyncio.to_thread(functions),  # the language may have to be imported
        "keywords": _KEYWORDS.split("|"),
    }
    return json_response(OK, body)


@cache
def functions() -> list[dict[str, str]]:
    """Return every function of the language by name, with its signature and kind."""
    from elfmesh.ql.expressions.aggregates import AGGREGATES
    from elfmesh.ql.expressions.refusals import GENERATORS, OVER_FUNCTIONS, WINDOWS
    from elfmesh.ql.expressions.registry import FUNCTIONS
    from elfmesh.ql.functions import all as _functions  # noqa: F401 - fills the registry

    found = [
        {"name": each.name, "signature": each.signature, "kind": "function"} for each in FUNCTIONS.values()
    ]
    found += [
        {"name": name, "signature": form.signature, "kind": "aggregate"} for name, form in AGGREGATES.items()
    ]
    for names, kind in ((WINDOWS, "window"), (OVER_FUNCTIONS, "over"), (GENERATORS, "rows")):
        found += [{"name": name, "signature": f"{name}(...)", "kind": kind} for name in names]
    return sorted(found, key=lambda each: each["name"])


async def check(body: dict[str, Any], at_once: asyncio.Semaphore) -> web.StreamResponse:
    """Parse the text of a job as `apply` would, without changing anything.

    `at_once` limits the number of texts that are parsed concurrently.

    Raises:
        UsageError: the text is missing or too long.
        QueryError: the text is wrong, at a line and a column.
    """
    text = body.get("text")
    if not isinstance(text, str) or len(text.encode()) > TEXT_BYTES_MAX:
        raise UsageError(f"check needs the text of a job, at most {TEXT_BYTES_MAX} bytes")
    async with at_once:
        return json_response(OK, await asyncio.to_thread(_checked, text))


def _checked(text: str) -> dict[str, Any]:
    job, _ = read_job(text)
    statement = ql.parse(text)
    return {
        "job": f"{job.namespace}/{job.name}",
        "namespace": job.namespace,
        "streams": list(statement.streams),
        "reads": [name for each in statement.streams if (name := ql.job_read(each))],
        "columns": list(statement.columns),
        "fields": list(statement.fields),
    }
