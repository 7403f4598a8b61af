"""The middleware that authorises each request: a rule, a namespace, and a line in the audit log."""

from __future__ import annotations

import pytest
from aiohttp import web

from elfmesh.api.authority.web import authorised
from tests.api.authority.calls import (
    AGENT,
    JOB,
    OPERATOR,
    OTHER,
    READER,
    SHOP,
    Api,
)


@pytest.fixture
def api() -> Api:
    return Api()


async def test_a_route_that_declares_nothing_is_refused_to_all(api: Api) -> None:
    async def handler(request: web.Request) -> web.Response:
        raise AssertionError("no caller gets here")

    api.app.router.add_get("/v1/forgotten", handler)
    status, body = await api.ask(OPERATOR, "GET", "/v1/forgotten")
    assert (status, body["error"]) == (403, "/v1/forgotten declares no role")


async def test_a_request_without_an_identified_caller_is_refused(api: Api) -> None:
    api.app.middlewares[:] = [each for each in api.app.middlewares if each is authorised]
    for method, path in (("GET", "/v1/jobs"), ("DELETE", "/v1/jobs/shop/top")):
        status, body = await api.ask(OPERATOR, method, path)
        assert (status, "nobody" in body["error"]) == (401, True)
    assert api.backend.asked == []


async def test_the_namespace_of_a_job_is_that_of_its_text(api: Api) -> None:
    assert (await api.ask(SHOP, "POST", "/v1/jobs", text=JOB))[0] == 200
    for text in (JOB.replace("shop.top", "other.top"), JOB.replace("shop.top", "top")):
        status, body = await api.ask(SHOP, "POST", "/v1/jobs", text=text, job="shop/top")
        assert (status, [verb for verb, _ in api.backend.asked].count("apply")) == (403, 1)
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
