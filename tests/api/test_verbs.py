"""A verb is one record and its handler: dispatcher, HTTP, role, audit log and clients follow from them."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import pytest

from elfmesh.api.authority.needs import About, Rule, routes
from elfmesh.api.client.asyncio import AsyncClient
from elfmesh.api.client.client import connect
from elfmesh.control.protocol.events import Reply
from elfmesh.control.protocol.replies import read_reply
from elfmesh.control.requests.job_verbs import ALL_HANDLERS, JOB_HANDLERS, Asked
from elfmesh.control.requests.verbs import VERBS, Fields, Need, Scope, Verb
from elfmesh.errors import RuntimeFailure, UsageError
from tests.control.fakes import FakeBackend, served
from tests.control.harness import World


class Louder(Fields, frozen=True):
    times: int = 1


class Cry(msgspec.Struct, frozen=True, rename={"inside": "in"}):
    text: str
    inside: str
    more: str | msgspec.UnsetType = msgspec.UNSET


LOUDER = Verb("louder", route="POST louder", need=Need.SUBMIT, request=Louder, reply=Cry)


def louder(asked: Asked) -> Cry:
    manifest = asked.master.term.manifest
    return Cry(manifest.name.upper() * asked.body["times"], manifest.namespace)


class Fleet(FakeBackend):
    """Agents of the harness behind the API of one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(3)
        self.world.apply(self.world[0])

    async def request(self, verb: str, body: dict[str, Any], timeout_s: float = 30.0) -> Reply:
        return self.world.ask(self.world[1], verb, body)


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VERBS, LOUDER.name, LOUDER)
    monkeypatch.setitem(JOB_HANDLERS, LOUDER.name, louder)


@pytest.mark.usefixtures("added")
def test_a_verb_is_added_by_one_record_and_its_handler() -> None:
    rule = Rule(Need.SUBMIT, About.PATH, "louder")
    assert routes()["POST", "/v1/jobs/{namespace}/{name}/louder"] == rule
    with served(Fleet()) as address:
        client = connect(address)
        found = client.ask("louder", "shop/top", times=2)
        assert found == {"text": "TOPTOP", "in": "shop"}
        assert read_reply(LOUDER.reply, found) == Cry("TOPTOP", "shop")
        assert client.ask("louder", "shop/top")["text"] == "TOP"
        with pytest.raises(RuntimeFailure, match="no such job"):
            client.ask("louder", "shop/other")
        with pytest.raises(UsageError, match="times='x' is not a number"):
            client.ask("louder", "shop/top", times="x")

        async def ask() -> dict[str, Any]:
            async with AsyncClient(address) as other:
                return await other.ask("louder", "shop/top")

        assert asyncio.run(ask()) == {"text": "TOP", "in": "shop"}


def test_without_its_record_there_is_no_such_verb() -> None:
    with served(Fleet()) as address, pytest.raises(UsageError, match="'louder' is not one of"):
        connect(address).ask("louder", "shop/top")


def test_every_verb_of_a_job_and_of_all_agents_has_a_handler() -> None:
    elsewhere = {"recover"}  # by the agent that should lead the job
    jobs = {name for name, verb in VERBS.items() if verb.scope is Scope.JOB}
    assert jobs - elsewhere <= set(JOB_HANDLERS)
    assert {name for name, verb in VERBS.items() if verb.scope is Scope.ALL} == set(ALL_HANDLERS)


@pytest.mark.parametrize("name", [name for name, verb in VERBS.items() if verb.changes])
def test_a_verb_that_changes_a_job_is_an_action_in_the_audit_log(name: str) -> None:
    verb = VERBS[name]
    assert routes()[verb.method, verb.path].action == name
    assert verb.need is not Need.READ


def test_a_client_names_what_it_has_seen_to_any_verb() -> None:
    with served(Fleet()) as address:
        client = connect(address)
        seen = client.describe("shop/top")["seen"]
        assert client.ask("pause", "shop/top", seen=seen)["state"] == "paused"
        client.resume("shop/top")
        with pytest.raises(RuntimeFailure, match="the outcome is unknown: it is at version 1 now"):
            client.ask("pause", "shop/top", seen=seen)


def test_an_update_changes_the_version_that_was_described_or_nothing() -> None:
    with served(Fleet()) as address:
        client = connect(address)
        running = client.describe("shop/top")
        texts = [running["text"].replace("GROUP BY", f"WHERE product <> '{n}' GROUP BY") for n in (1, 2)]
        assert client.update("shop/top", texts[0], running=running)["version"] == 2
        with pytest.raises(RuntimeFailure, match="the change is refused: it is at version 2 now"):
            client.update("shop/top", texts[1], running=running)
        assert cast("str", client.describe("shop/top")["text"]) == texts[0]
        assert client.update("shop/top", texts[1])["version"] == 3
