"""The middleware that authorises every request of the HTTP API before its handler runs.

The module determines the rule of a request in `needs` and the namespace that the request is about, and
records actions and refusals in the audit log before anything happens. It refuses routes without a rule.

Invariant: the authorised namespace is the one on which the handler acts, because both read it from the same
bytes with `split_name` and the parser of ELF-QL.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from aiohttp import web

from elfmesh import ql
from elfmesh.api.authority.needs import About, Rule, is_anonymous, meets, refusal
from elfmesh.api.identity.identify import PRINCIPAL
from elfmesh.api.identity.principal import Principal, Role
from elfmesh.api.web.responses import json_body, json_response
from elfmesh.control.answers import UNAVAILABLE, error_body, error_of
from elfmesh.control.jobs.manifest import TEXT_BYTES_MAX, split_name
from elfmesh.control.requests.verbs import Need
from elfmesh.errors import ElfError, QueryError, UsageError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
UNIDENTIFIED, FORBIDDEN = 401, 403
ANONYMOUS = Principal("nobody", frozenset())
"""The caller if no middleware has identified it."""


UNPROVED = Principal("unknown", frozenset(), source="not believed")
"""The caller if its token or certificate is invalid."""

LOCAL = Principal("local", frozenset({Role.OPERATOR}))
"""The caller of an API without an `Identifier`. The API of an agent always has one."""


@web.middleware
async def undistinguished(request: web.Request, handler: Handler) -> web.StreamResponse:
    request[PRINCIPAL] = LOCAL
    return await handler(request)


class Recorder(Protocol):
    """Interface of the audit log."""

    async def record(
        self, caller: Principal, action: str, *, allowed: bool, job: str = "", digest: str = "", why: str = ""
    ) -> None:
        """Record an action before it happens. Raises StorageError if the action cannot be recorded."""
        ...


AUDIT: web.AppKey[Recorder] = web.AppKey("audit", Recorder)
RULES: web.AppKey[dict[tuple[str, str], Rule]] = web.AppKey("rules", dict)


@web.middleware
async def authorised(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Pass a request on if its caller has the required role; otherwise answer 401 or 403 with one line."""
    resource = request.match_info.route.resource
    if resource is None:  # no such path or method; the router answers
        return await handler(request)
    method = "GET" if request.method == "HEAD" else request.method
    rule = request.app[RULES].get((method, resource.canonical))
    caller = request.get(PRINCIPAL, ANONYMOUS)
    if rule is None:
        return _refused(caller, f"{request.path} declares no role", "This is a bug in elfmesh.")
    body = await _body(request) if rule.about in (About.TEXT, About.TAP) else {}
    namespace, job = _named(request, rule)
    if rule.about in (About.TEXT, About.TAP):  # in a thread, because the parser may have to be imported
        namespace, job = await asyncio.to_thread(_about_text, rule, body)
    action = rule.action
    what = action or f"{request.method} {request.path}"
    need = Need.OPERATE if rule.about is About.TAP and namespace is None else rule.need
    allowed = meets(need, caller, namespace) or _is_unreadable(rule, caller, namespace)
    line, hint = ("", "") if allowed else refusal(need, caller, what, namespace)
    recorder = request.app.get(AUDIT)
    if recorder is not None and (action or not allowed):
        try:
            await recorder.record(
                caller, what, allowed=allowed, job=job, digest=_digest(body), why="" if allowed else line
            )
        except ElfError as error:
            return json_response(UNAVAILABLE, error_of(error))
    return await handler(request) if allowed else _refused(caller, line, hint)


async def disbelieved(request: web.Request, why: str) -> None:
    """Record that an invalid token or certificate was presented. The request is refused in any case."""
    if (recorder := request.app.get(AUDIT)) is not None:
        what = f"{request.method} {request.path}"
        with contextlib.suppress(ElfError):
            await recorder.record(UNPROVED, what, allowed=False, why=why)


def _refused(caller: Principal, line: str, hint: str) -> web.Response:
    status = UNIDENTIFIED if is_anonymous(caller) else FORBIDDEN
    headers = {"WWW-Authenticate": "Bearer"} if status == UNIDENTIFIED else {}
    response = json_response(status, error_body(line, hint=hint))
    response.headers.update(headers)
    return response


def _is_unreadable(rule: Rule, caller: Principal, namespace: str | None) -> bool:
    return rule.about is About.TEXT and namespace is None and Role.SUBMITTER in caller.roles


async def _body(request: web.Request) -> Mapping[str, Any]:
    try:
        return await json_body(request)
    except UsageError:
        return {}


def _named(request: web.Request, rule: Rule) -> tuple[str | None, str]:
    if rule.about is About.PATH:
        info = request.match_info
        try:
            names = split_name(f"{info['namespace']}/{info['name']}")
        except ValueError:
            return None, ""
        return names[0], "/".join(names)
    return None, ""


def _about_text(rule: Rule, body: Mapping[str, Any]) -> tuple[str | None, str]:
    text = body.get("text")
    if rule.about is About.TAP:
        texts = body.get("texts")
        text = texts[0] if isinstance(texts, list) and texts else None
    if not isinstance(text, str) or len(text) > TEXT_BYTES_MAX:
        return None, ""
    try:
        found = ql.parse(text).job
    except QueryError:
        return None, ""
    return (None, "") if found is None else (found.namespace, found.qualified)


def _digest(body: Mapping[str, Any]) -> str:
    text = body.get("text") or body.get("texts")
    if not text:
        return ""
    reported = text if isinstance(text, str) else json.dumps(text)
    return hashlib.sha256(reported.encode(errors="surrogatepass")).hexdigest()
