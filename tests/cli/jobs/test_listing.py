"""`elf get` and `elf describe` where agents do not answer."""

from __future__ import annotations

import json

from elfmesh.control.protocol.events import Reply
from tests.cli.remote import api, backend, elf
from tests.control.fakes import FakeBackend, recorded

__all__ = ["api", "backend"]

WEB1 = {"name": "web1", "id": "aa", "status": "alive"}


def test_a_list_that_lacks_agents_reports_how_many_answered(api: str, backend: FakeBackend) -> None:
    backend.lists("agents", [WEB1], silent=1)
    for output in ("table", "json", "csv"):
        ran = elf("get", "agents", "-o", output, "--api", api)
        assert ran.exit_code == 0
        assert "web1" in ran.stdout
        assert "7 of 8 agents answered: the list may be incomplete." in ran.stderr
    backend.lists("agents", [WEB1])
    assert elf("get", "agents", "-o", "json", "--api", api).stderr == ""


def test_an_agent_that_did_not_answer_is_not_called_unknown(api: str, backend: FakeBackend) -> None:
    backend.lists("agents", [WEB1], silent=1)
    assert elf("describe", "agent", "web1", "--api", api).exit_code == 0
    ran = elf("describe", "agent", "web2", "--api", api)
    assert ran.exit_code == 69
    assert "7 of 8 agents answered, and none of them lists agent 'web2'" in ran.stderr
    assert "Ask again." in ran.stderr
    backend.lists("agents", [WEB1])
    ran = elf("describe", "agent", "web2", "--api", api)
    assert ran.exit_code == 1
    assert "there is no agent 'web2'" in ran.stderr


def test_the_master_of_a_described_job_is_an_object(api: str, backend: FakeBackend) -> None:
    backend.replies["describe"] = Reply(0, 200, recorded("describe") | {"master": "web1", "epoch": 4})
    found = json.loads(elf("describe", "job", "shop/top", "-o", "json", "--api", api).stdout)
    assert found["master"] == {"name": "web1", "epoch": 4}
    assert isinstance(found["voters"], list)
    assert "master: web1\n" in elf("describe", "job", "shop/top", "--api", api).stdout


def test_several_jobs_are_a_table_and_queries_are_those_of_clients(api: str, backend: FakeBackend) -> None:
    rows = [
        {"id": name, "job": f"n/{name}", "creator": "me", "state": "running"} | more
        for name, more in (("a", dict[str, bool]()), ("q-1", {"leased": True}))
    ]
    backend.lists("list", rows)
    assert "n/a" in elf("get", "jobs", "--api", api).stdout
    ran = elf("get", "queries", "--api", api)
    assert "n/q-1" in ran.stdout
    assert "n/a" not in ran.stdout
    backend.lists("list", rows[:1])
    assert elf("get", "queries", "--api", api).stderr == "There are no queries.\n"


def test_plugins_are_listed_by_agent(api: str, backend: FakeBackend) -> None:
    plugins = {"sink/lines": "elf-example 1.0", "function/vowels": "elf-example 1.0"}
    refused = {
        "kind": "format",
        "plugin": "later",
        "package": "laterp",
        "version": "2.0",
        "reason": "it is new",
    }
    about = {"plugins": plugins, "refused_plugins": [refused]}
    backend.lists("agents", [{**WEB1, **about}, {**WEB1, "name": "web2"}])
    ran = elf("get", "plugins", "-o", "json", "--api", api)
    usable = {"package": "elf-example", "version": "1.0", "problem": None}
    assert [json.loads(line) for line in ran.stdout.splitlines()] == [
        {"agent": "web1", "kind": "function", "plugin": "vowels"} | usable,
        {"agent": "web1", "kind": "sink", "plugin": "lines"} | usable,
        {"agent": "web1", "kind": "format", "plugin": "later", "package": "laterp", "version": "2.0",
         "problem": "not used: it is new"},
    ]  # fmt: skip
    assert "not used: it is new" in elf("get", "plugins", "--api", api).stdout
    backend.lists("agents", [WEB1])
    assert elf("get", "plugins", "--api", api).stderr == "There are no plugins.\n"
