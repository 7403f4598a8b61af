"""Every route and message has a role; what has none is allowed to no caller; a caller that lacks it learns
so."""

from __future__ import annotations

import re
from typing import Any

import pytest

from elfmesh.agent.runtime.core import MESSAGES
from elfmesh.api.authority import needs
from elfmesh.api.authority.needs import About, routes
from elfmesh.api.identity.principal import LOOPBACK_READER, Principal
from elfmesh.control.protocol import messages as control_messages
from elfmesh.control.requests.verbs import Need
from tests.api.authority.calls import (
    AGENT,
    DOCUMENT,
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


def registered() -> set[tuple[str, str]]:
    return {
        (route.method, route.resource.canonical)
        for route in Api().app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }


def test_every_route_declares_its_role_and_no_declaration_is_left_over() -> None:
    assert registered() - set(routes()) == set(), "declare it in elfmesh/api/authority/needs.py"
    assert set(routes()) - registered() == set(), "no room registers it any more"


def test_every_message_declares_its_role_and_no_declaration_is_left_over() -> None:
    names = [kind.__name__ for kind in MESSAGES]
    assert len(names) == len(set(names)), "the table is by name"
    assert set(names) - set(needs.MESSAGES) == set(), "declare it in elfmesh/api/authority/needs.py"
    assert set(needs.MESSAGES) - set(names) == set()
    assert set(control_messages.MESSAGES) <= set(MESSAGES)


def path_of(canonical: str) -> str:
    verb = "undo" if "rollout" in canonical else "pause"
    return canonical.format(namespace="shop", name="top", verb=verb, file="style.css")


@pytest.mark.parametrize(("method", "canonical"), sorted(routes()), ids=str)
async def test_a_caller_that_lacks_the_role_reaches_no_handler(api: Api, method: str, canonical: str) -> None:
    rule = routes()[method, canonical]
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
async def test_a_caller_that_has_the_role_is_answered(
    api: Api, caller: Principal, method: str, path: str
) -> None:
    status, _ = await api.ask(caller, method, path)
    assert status == 200


def test_the_document_has_the_table() -> None:
    section = DOCUMENT.read_text().partition("## Authorization")[2].partition("\n## ")[0]
    found = dict(re.findall(r"^\| `(\w+ /[^`]*)` \| ([^|]+) \|", section, re.M))
    assert found == {f"{method} {path}": words(rule) for (method, path), rule in routes().items()}


def words(rule: needs.Rule) -> str:
    if rule.about is About.TAP:
        return "submitter of the job's namespace; operator for a stream"
    return f"{rule.need} of the namespace" if rule.need is Need.SUBMIT else str(rule.need)
