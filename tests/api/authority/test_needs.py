"""Every route and message has a role; what has none is allowed to no caller; a caller that lacks it learns
so."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from elfmesh.agent.runtime.core import MESSAGES
from elfmesh.api.app import make_app
from elfmesh.api.authority import needs
from elfmesh.api.authority.needs import ROUTES, About
from elfmesh.api.authority.web import authorised
from elfmesh.api.identity.identify import PRINCIPAL
from elfmesh.api.identity.principal import LOOPBACK_READER, Principal, Role
from elfmesh.api.web.programs import ProgramHost
from elfmesh.api.web.tap import TapRequest
from elfmesh.control.protocol import messages as control_messages
from elfmesh.control.requests.verbs import Need
from elfmesh.errors import StorageError
from tests.control.fakes import FakeBackend

DOCUMENT = Path(__file__).parents[3] / "docs" / "security.md"
JOB = "CREATE JOB shop.top EVERY '30 s' AS SELECT path, count(*) AS n FROM access GROUP BY path"
READER = Principal("rita", frozenset({Role.READER}), source="certificate")
SHOP = Principal("sam", frozenset({Role.SUBMITTER}), frozenset({"shop"}), source="certificate")
OTHER = Principal("otto", frozenset({Role.SUBMITTER}), frozenset({"other"}), source="certificate")
OPERATOR = Principal("olga", frozenset({Role.OPERATOR}), source="token")
AGENT = Principal("web1", frozenset({Role.AGENT}), source="certificate")


class Lines:
    async def lines(self, request: TapRequest) -> AsyncGenerator[dict[str, Any], None]:
        yield {"stream": "access"}


class Recording:
    def __init__(self) -> None:
        self.actions: list[tuple[str, str, bool, str, str]] = []
        self.full = False

    async def record(
        self, caller: Principal, action: str, *, allowed: bool, job: str = "", digest: str = "", why: str = ""
    ) -> None:
        if self.full:
            raise StorageError("the audit log cannot be written")
        self.actions.append((caller.name, action, allowed, job, digest))


class Api:
    """The whole API, asked by `caller`."""

    def __init__(self) -> None:
        self.backend, self.audit, self.caller = FakeBackend(), Recording(), OPERATOR
        programs = ProgramHost(cast("Any", None), cast("Any", None))  # no caller gets there
        self.app = make_app(self.backend, Lines(), lambda: bytes, programs, self.audit)

        @web.middleware
        async def identified(request: web.Request, handler: Any) -> web.StreamResponse:
            request[PRINCIPAL] = self.caller
            response: web.StreamResponse = await handler(request)
            return response

        self.app.middlewares.insert(self.app.middlewares.index(authorised), identified)

    async def ask(self, caller: Principal, method: str, path: str, **body: Any) -> tuple[int, Any]:
        self.caller = caller
        given = {"json": body} if body else {}
        async with TestClient(TestServer(self.app, host="127.0.0.1")) as client:
            answer = await client.request(method, path, **given)  # type: ignore[arg-type]  # a body or none
            return answer.status, await answer.json() if answer.content_type.endswith("/json") else None


@pytest.fixture
def api() -> Api:
    return Api()


def registered() -> set[tuple[str, str]]:
    return {
        (route.method, route.resource.canonical)
        for route in Api().app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }


def test_every_route_declares_its_role_and_no_declaration_is_left_over() -> None:
    assert registered() - set(ROUTES) == set(), "declare it in elfmesh/api/authority/needs.py"
    assert set(ROUTES) - registered() == set(), "no room registers it any more"


def test_every_message_declares_its_role_and_no_declaration_is_left_over() -> None:
    names = [kind.__name__ for kind in MESSAGES]
    assert len(names) == len(set(names)), "the table is by name"
    assert set(names) - set(needs.MESSAGES) == set(), "declare it in elfmesh/api/authority/needs.py"
    assert set(needs.MESSAGES) - set(names) == set()
    assert set(control_messages.MESSAGES) <= set(MESSAGES)


async def test_a_route_that_declares_nothing_is_refused_to_all(api: Api) -> None:
    async def handler(request: web.Request) -> web.Response:
        raise AssertionError("no caller gets here")

    api.app.router.add_get("/v1/forgotten", handler)
    status, body = await api.ask(OPERATOR, "GET", "/v1/forgotten")
    assert (status, body["error"]) == (403, "/v1/forgotten declares no role")


async def test_who_was_not_looked_at_is_nobody(api: Api) -> None:
    api.app.middlewares[:] = [each for each in api.app.middlewares if each is authorised]
    for method, path in (("GET", "/v1/jobs"), ("DELETE", "/v1/jobs/shop/top")):
        status, body = await api.ask(OPERATOR, method, path)
        assert (status, "nobody" in body["error"]) == (401, True)
    assert api.backend.asked == []


def path_of(canonical: str) -> str:
    verb = "undo" if "rollout" in canonical else "pause"
    return canonical.format(namespace="shop", name="top", verb=verb, file="style.css")


@pytest.mark.parametrize(("method", "canonical"), sorted(ROUTES), ids=str)
async def test_who_lacks_the_role_reaches_no_handler(api: Api, method: str, canonical: str) -> None:
    rule = ROUTES[method, canonical]
    body: dict[str, Any] = {}
    if rule.about is About.TEXT:
        body = {"text": JOB}
    elif rule.about is About.TAP:
        body = {"texts": [JOB]}
    lacking = {
        Need.READ: (AGENT,),
        Need.SUBMIT: (AGENT, READER, OTHER, LOOPBACK_READER),
        Need.OPERATE: (AGENT, READER, SHOP, LOOPBACK_READER),
    }[rule.need]
    for caller in lacking:
        status, answer = await api.ask(caller, method, path_of(canonical), **body)
        assert status == (401 if caller is LOOPBACK_READER else 403)
        assert f"needs the role {rule.need}" in answer["error"]
        assert caller.name in answer["error"]
        assert answer["code"] == 1
        assert answer["hint"]
    assert api.backend.asked == []
    assert {allowed for _, _, allowed, _, _ in api.audit.actions} == {False}


@pytest.mark.parametrize(
    ("caller", "method", "path"),
    [
        (LOOPBACK_READER, "GET", "/v1/jobs/shop/top"),
        (READER, "HEAD", "/v1/jobs"),
        (SHOP, "GET", "/v1/agents"),
        (SHOP, "DELETE", "/v1/jobs/shop/top"),
        (SHOP, "POST", "/v1/jobs/shop/top/pause"),
        (OPERATOR, "POST", "/v1/jobs/shop/top/rollout/undo"),
        (OPERATOR, "POST", "/v1/agent/leave"),
    ],
)
async def test_who_has_the_role_is_answered(api: Api, caller: Principal, method: str, path: str) -> None:
    status, _ = await api.ask(caller, method, path)
    assert status == 200


async def test_the_namespace_of_a_job_is_that_of_its_text(api: Api) -> None:
    assert (await api.ask(SHOP, "POST", "/v1/jobs", text=JOB))[0] == 200
    for text in (JOB.replace("shop.top", "other.top"), JOB.replace("shop.top", "top")):
        status, body = await api.ask(SHOP, "POST", "/v1/jobs", text=text, job="shop/top")
        assert (status, len(api.backend.asked)) == (403, 1)
        assert "sam (certificate) has submitter of shop" in body["error"]
    # A text that is none is not hidden behind a refusal, from who may submit something.
    assert (await api.ask(SHOP, "POST", "/v1/jobs", text="CREATE JOB"))[0] == 200
    assert (await api.ask(READER, "POST", "/v1/jobs", text="CREATE JOB"))[0] == 403


@pytest.mark.parametrize(
    "path", ["shop%2Fx/top", "shop.x/top", "%20other/top", "other%2E/top", "../other/top"]
)
async def test_no_spelling_of_a_path_is_another_namespace_for_the_handler(api: Api, path: str) -> None:
    await api.ask(SHOP, "DELETE", f"/v1/jobs/{path}")
    assert [body for verb, body in api.backend.asked if "other" in body["job"].split("/")[0]] == []


async def test_raw_lines_of_a_stream_are_for_operators_and_of_a_job_for_its_submitters(api: Api) -> None:
    stream = "SELECT _raw FROM access"
    assert (await api.ask(SHOP, "POST", "/v1/tap", texts=[JOB]))[0] == 200
    assert (await api.ask(SHOP, "POST", "/v1/tap", texts=[stream]))[0] == 403
    assert (await api.ask(SHOP, "POST", "/v1/tap", texts=[stream, JOB]))[0] == 403
    assert (await api.ask(OPERATOR, "POST", "/v1/tap", texts=[stream]))[0] == 200


async def test_actions_and_refusals_are_recorded_and_looking_is_not(api: Api) -> None:
    await api.ask(READER, "GET", "/v1/jobs")
    await api.ask(SHOP, "POST", "/v1/jobs", text=JOB)
    await api.ask(OTHER, "DELETE", "/v1/jobs/shop/top")
    await api.ask(AGENT, "GET", "/v1/jobs")
    actions = [each[:4] for each in api.audit.actions]
    assert actions == [
        ("sam", "apply", True, "shop/top"),
        ("otto", "delete", False, "shop/top"),
        ("web1", "GET /v1/jobs", False, ""),
    ]
    assert len(api.audit.actions[0][4]) == 64


async def test_what_cannot_be_recorded_is_not_done(api: Api) -> None:
    api.audit.full = True
    status, body = await api.ask(OPERATOR, "DELETE", "/v1/jobs/shop/top")
    assert (status, api.backend.asked) == (503, [])
    assert "audit log" in body["error"]
    assert (await api.ask(OPERATOR, "GET", "/v1/jobs"))[0] == 200


def test_the_document_has_the_table() -> None:
    section = DOCUMENT.read_text().partition("## Authorization")[2].partition("\n## ")[0]
    found = dict(re.findall(r"^\| `(\w+ /[^`]*)` \| ([^|]+) \|", section, re.M))
    assert found == {f"{method} {path}": words(rule) for (method, path), rule in ROUTES.items()}


def words(rule: needs.Rule) -> str:
    if rule.about is About.TAP:
        return "submitter of the job's namespace; operator for a stream"
    return f"{rule.need} of the namespace" if rule.need is Need.SUBMIT else str(rule.need)
