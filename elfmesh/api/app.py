"""The HTTP API of an agent, through which clients reach the whole overlay.

The module owns routes, parameters and the form of answers. It passes requests to a `Backend` (the pump of the
agent). Answers are JSON unless noted otherwise; errors are {"error", "where", "hint", "code"}.

Invariants: the size of a request body is bounded. Requests from web pages of another origin, or under a name
that merely resolves to this address, are refused. A handler runs only after `authority.web` has authorised
the request with the table in `authority.needs`, which contains the role of each route. `request[PRINCIPAL]`
is the caller.

  POST   /v1/jobs       {"text", "creator", "dry_run", "job", "canary", "signed", "seen"} -> as `elf apply`
  GET    /v1/jobs/NS/NAME/VERB           see `control.requests.verbs`; results accept &follow=1
  POST   /v1/tap                         live lines of a stream of this agent, see web/tap.py
  GET    /v1/programs/NS/NAME            and POST .../insert, .../post, GET .../position, see web/programs.py
  POST   /v1/cost       {"text","range"} what each agent would read, see web/cost.py
  GET    /v1/coordination                and POST {"text"}: labels, see web/coordination.py
  GET    /v1/what-if                     the worth of results after a loss, see web/what_if.py
  GET    / /page/FILE /v1/me /v1/language, POST /v1/check   the live page, see web/page/routes.py
  GET    /metrics                        metrics of the agent, and newest results if a sink exposes them
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

from aiohttp import web

from elfmesh import ids
from elfmesh.api.authority.needs import routes
from elfmesh.api.authority.web import AUDIT, RULES, Recorder, authorised, disbelieved, undistinguished
from elfmesh.api.host_rules import rule_for
from elfmesh.api.identity.identify import Identifier, identifying
from elfmesh.api.web import coordination
from elfmesh.api.web.cost import cost
from elfmesh.api.web.middlewares import Handler, as_it_is_called, errors_answered, same_origin
from elfmesh.api.web.page import routes as page
from elfmesh.api.web.parameters import parameters
from elfmesh.api.web.programs import ProgramHost, attach, insert, position, post
from elfmesh.api.web.request_limits import RequestLimits
from elfmesh.api.web.responses import json_body, json_response
from elfmesh.api.web.result_file import ResultFiles
from elfmesh.api.web.results import arrow, follow, results, schema
from elfmesh.api.web.rollout import promote, rollout, undo
from elfmesh.api.web.story import story
from elfmesh.api.web.tap import TapSource, tap
from elfmesh.api.web.what_if import measured, what_if
from elfmesh.api.web.whole_rows import Asker
from elfmesh.control.answers import (
    seconds,
)
from elfmesh.control.jobs.manifest import TEXT_BYTES_MAX
from elfmesh.control.protocol.events import Reply
from elfmesh.control.requests.requests import LEAVE_WAIT_S
from elfmesh.control.requests.verbs import VERBS, Scope, Verb
from elfmesh.errors import UsageError

BODY_BYTES_MAX = 2 * TEXT_BYTES_MAX + 4096
WAIT_GRACE_S = 25.0
"""How much longer than its own wait a request may take. The control machine answers within 10 s, or within 20
s for `apply`."""


class Backend(Protocol):
    """Interface of the pump of an agent."""

    async def request(self, verb: str, body: dict[str, Any], timeout_s: float = ...) -> Reply:
        """Pass a request to the control machine. Raises Unreachable if it does not answer in time."""
        ...


BACKEND: web.AppKey[Backend] = web.AppKey("backend", Backend)
TAPS: web.AppKey[TapSource] = web.AppKey("taps", TapSource)
LOADED: web.AppKey[Callable[[], Awaitable[object]]] = web.AppKey("loaded")
METRICS: web.AppKey[Callable[[], Callable[[], bytes]]] = web.AppKey("metrics")
CHECKS = web.AppKey("checks", asyncio.Semaphore)
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
FILES: web.AppKey[ResultFiles] = web.AppKey("files", ResultFiles)
PROGRAMS: web.AppKey[ProgramHost] = web.AppKey("programs", ProgramHost)


def make_app(
    backend: Backend,
    taps: TapSource | None = None,
    metrics: Callable[[], Callable[[], bytes]] | None = None,
    programs: ProgramHost | None = None,
    audit: Recorder | None = None,
    identifier: Identifier | None = None,
    request_limits: RequestLimits | None = None,
    loaded: Callable[[], Awaitable[object]] = partial(asyncio.sleep, 0),  # noqa: B008 - it has no state
) -> web.Application:
    """Return the API over `backend`.

    Without `taps`, `metrics` or `programs`, the routes for live lines, metrics or programs do not exist.
    Without `audit`, no action is recorded. `identifier` determines the caller, `request[PRINCIPAL]`; agents
    always have one. Without it, every caller is an operator. Routes that read texts themselves wait for
    `loaded`, because two threads that import one module at a time may fail.
    """
    known = undistinguished if identifier is None else identifying(identifier, disbelieved)
    request_limits = request_limits or RequestLimits()
    limits = (request_limits.until_gone, request_limits.middleware)
    middlewares = [*limits, errors_answered, same_origin, known, request_limits.shares, authorised]
    app = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=middlewares)
    app.on_response_prepare.append(as_it_is_called)
    app[BACKEND], app[LOADED] = backend, loaded
    app[CHECKS] = asyncio.Semaphore(1)  # so that principals that may only read use at most one processor
    app[FILES] = ResultFiles()
    app.on_cleanup.append(_close_files)
    if audit is not None:
        app[AUDIT] = audit
    app[RULES] = routes()
    for verb in VERBS.values():
        if verb.route:
            add = app.router.add_get if verb.method == "GET" else partial(app.router.add_route, verb.method)
            add(verb.path, OWN.get(verb.name) or _passes_on(verb))
    for place in ("/", "/page"):
        app.router.add_get(place, page.index)
    app.router.add_get("/page/{file:.*}", page.page)
    app.router.add_get("/v1/me", page.me)
    app.router.add_get("/v1/language", _language)
    app.router.add_post("/v1/check", _check)
    app.router.add_get("/v1/coordination", _fleet_labels)
    app.router.add_post("/v1/coordination", _text_labels)
    app.router.add_get("/v1/what-if", _what_if)
    if taps is not None:
        app[TAPS] = taps
        app.router.add_post("/v1/tap", _tap)
    if metrics is not None:
        app[METRICS] = metrics
        app.router.add_get("/metrics", _metrics)
    if programs is not None:
        app[PROGRAMS] = programs
        app.router.add_get("/v1/programs/{namespace}/{name}", _program(attach))
        app.router.add_post("/v1/programs/{namespace}/{name}/insert", _program(insert))
        app.router.add_post("/v1/programs/{namespace}/{name}/post", _program(post))
        app.router.add_get("/v1/programs/{namespace}/{name}/position", _program(position))
    return app


# -- routes --------------------------------------------------------------------------------------------


async def _apply(request: web.Request) -> web.StreamResponse:
    body = await json_body(request)
    known = ("text", "creator", "dry_run", "source", "job", "canary", "signed", "first", "leased", "seen")
    if not isinstance(body.get("canary") or {}, dict):
        raise UsageError('canary must be an object of labels, such as {"zone": "eu-1"}')
    await request.app[LOADED]()
    rule = await rule_for(_asker(request), body)
    given = {key: value for key, value in body.items() if key in known}
    return await _passed_on(request, "apply", given | ({"keep_in": rule} if rule else {}))


async def _trees(request: web.Request) -> web.StreamResponse:
    tree = request.query.get("tree")
    body = {} if tree is None else {"tree": ids.ALL_AGENTS.hex() if tree == "all" else tree}
    return await _passed_on(request, "trees", body)


async def _language(request: web.Request) -> web.StreamResponse:
    return await page.language(_asker(request))


async def _check(request: web.Request) -> web.StreamResponse:
    await request.app[LOADED]()
    return await page.check(await json_body(request), request.app[CHECKS])


async def _fleet_labels(request: web.Request) -> web.StreamResponse:
    await request.app[LOADED]()
    return await coordination.of_fleet(_asker(request), request.app[CHECKS])


async def _text_labels(request: web.Request) -> web.StreamResponse:
    await request.app[LOADED]()
    return await coordination.of_text(await json_body(request), request.app[CHECKS])


async def _cost(request: web.Request) -> web.StreamResponse:
    await request.app[LOADED]()
    return await cost(_asker(request), await json_body(request), request.app[CHECKS])


async def _what_if(request: web.Request) -> web.StreamResponse:
    await request.app[LOADED]()
    query = request.query
    losses, each, job = query.getall("lose", []), query.get("each"), query.get("job")
    return await what_if(_asker(request), losses, each, job, request.app[CHECKS])


def _over(work: Callable[[Asker, dict[str, Any]], Awaitable[Reply]]) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        reply = await work(_asker(request), _job(request))
        return json_response(reply.status, reply.body)

    return handle


async def _story(request: web.Request) -> web.StreamResponse:
    job = _job(request) | parameters(VERBS["story"].request, request.query)
    reply = await story(_asker(request), job)
    return json_response(reply.status, reply.body)


async def _measure(request: web.Request) -> web.StreamResponse:
    body = _job(request) | parameters(VERBS["measure"].request, request.query)
    return await measured(_asker(request), body)


async def _leave(request: web.Request) -> web.StreamResponse:
    try:
        wait_s = seconds(request.query.get("wait", LEAVE_WAIT_S), LEAVE_WAIT_S)
    except ValueError:
        raise UsageError("wait must be a number of seconds") from None
    if (now := request.query.get("now", "0")) not in ("0", "1", "false", "true"):
        raise UsageError("now must be true or false")
    return await _passed_on(request, "leave", {"wait": wait_s, "now": now in ("1", "true")})


async def _tap(request: web.Request) -> web.StreamResponse:
    await request.app[LOADED]()
    return await tap(request, request.app[TAPS], await json_body(request))


async def _metrics(request: web.Request) -> web.StreamResponse:
    # collects the current values; writing them takes long enough to need a thread
    write = request.app[METRICS]()
    text = await asyncio.to_thread(write)
    return web.Response(body=text, headers={"Content-Type": PROMETHEUS})


def _program(answer: Callable[[web.Request, ProgramHost], Awaitable[web.StreamResponse]]) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        return await answer(request, request.app[PROGRAMS])

    return handle


async def _results(request: web.Request) -> web.StreamResponse:
    body = _numbered(request) | parameters(VERBS["results"].request, request.query)
    body |= {"rows": False} if request.query.get("rows") == "0" else {}
    if request.query.get("follow") in ("1", "true"):
        return await follow(request, _asker(request), body)
    return await results(request, _asker(request), body)


async def _schema(request: web.Request) -> web.StreamResponse:
    return await schema(_asker(request), _job(request) | parameters(VERBS["schema"].request, request.query))


async def _arrow(request: web.Request) -> web.StreamResponse:
    given = parameters(VERBS["arrow"].request, request.query)
    if not {"from", "to"} <= set(given):
        raise UsageError("arrow needs from=I and to=J: the intervals in (I, J]")
    question = {"from": given["from"] + 1, "to": given["to"], "state": given["state"]}
    if question["state"] == "all":
        question["revision"] = given.get("revision", 0)
    only = frozenset(request.query["only"].split(",")) if "only" in request.query else None
    view, own = given["view"], given["types"] == "own"
    return await arrow(request, _asker(request), _numbered(request), question, view=view, only=only, own=own)


def _file(kind: str) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        bounds = parameters(VERBS[f"{kind}_file"].request, request.query)
        return await request.app[FILES].answer(request, _asker(request), _job(request), kind, bounds)

    return handle


async def _close_files(app: web.Application) -> None:
    app[FILES].close()


def _passes_on(verb: Verb) -> Handler:

    async def handle(request: web.Request) -> web.StreamResponse:
        body = _job(request) if verb.scope is Scope.JOB else {}
        return await _passed_on(request, verb.name, body | parameters(verb.request, request.query))

    return handle


OWN: dict[str, Handler] = {
    "apply": _apply,
    "cost": _cost,
    "trees": _trees,
    "leave": _leave,
    "results": _results,
    "schema": _schema,
    "arrow": _arrow,
    "parquet_file": _file("parquet"),
    "arrow_file": _file("arrow"),
    "story": _story,
    "measure": _measure,
    "rollout": _over(rollout),
    "undo": _over(undo),
    "promote": _over(promote),
}
"""Handlers of verbs that do more than pass a request on."""


async def _passed_on(request: web.Request, verb: str, body: dict[str, Any]) -> web.StreamResponse:
    reply = await _asker(request)(verb, body)
    return json_response(reply.status, reply.body)


# -- helpers -------------------------------------------------------------------------------------------


def _asker(request: web.Request) -> Asker:
    backend = request.app[BACKEND]

    async def ask(verb: str, body: dict[str, Any]) -> Reply:
        return await backend.request(verb, body, float(body.get("wait") or 0) + WAIT_GRACE_S)

    return ask


def _job(request: web.Request) -> dict[str, Any]:
    info = request.match_info
    body: dict[str, Any] = {"job": f"{info['namespace']}/{info['name']}"}
    return body | {key: request.query[key] for key in ("creator", "seen") if request.query.get(key)}


def _numbered(request: web.Request) -> dict[str, Any]:
    name = request.query.get("incarnation")
    return _job(request) | ({"incarnation": name} if name else {})
