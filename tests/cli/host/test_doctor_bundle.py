"""The archive for maintainers: no secret that was put in comes out."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest

from elfmesh.cli.host import doctor_bundle
from elfmesh.cli.host.doctor_bundle import agent_log, redacted, write_bundle
from elfmesh.control.protocol.events import Reply
from tests.cli.remote import api, backend, elf
from tests.control.fakes import FakeBackend

__all__ = ["api", "backend"]

SECRET = "hunter2"
CONFIG = f"""
data_dir = "DIR/data"
api = "127.0.0.1:1"
[streams.a]
path = "DIR/a.log"
[streams.k.kafka]
servers = "kafka:9092"
topic = "t"
options = {{ "sasl.mechanism" = "{SECRET}-1", "ssl.keystore.location" = "{SECRET}-2" }}
[sinks.hook]
type = "webhook"
url = "https://hooks.example.org/services/{SECRET}-3?x={SECRET}-4"
[sinks.db]
type = "postgres"
conninfo = "host=db password={SECRET}-5"
[sinks.db2]
type = "postgres"
conninfo = "postgresql://user:{SECRET}-6@db/x"
"""
LOG = f"""2026-11-27T12:00:00Z INFO elf.agent joined the overlay
INFO sending Authorization: Bearer {SECRET}abcdef to https://u:{SECRET}@db.example.org/x?token={SECRET}
INFO password="{SECRET}" api_key={SECRET}
"""


def files_of(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        found = {each.name: archive.extractfile(each) for each in archive}
        return {
            name.removeprefix("elf-bundle/"): file.read().decode() for name, file in found.items() if file
        }


def test_no_secret_and_no_log_line_is_in_a_bundle(api: str, backend: FakeBackend, tmp_path: Path) -> None:
    config, log, target = tmp_path / "agent.toml", tmp_path / "agent.log", tmp_path / "b.tar.gz"
    config.write_text(CONFIG.replace("DIR", str(tmp_path)))
    (tmp_path / "a.log").write_text(f"{SECRET} is in a line of a user\n")
    log.write_text(LOG)
    problem = f"cannot reach https://u:{SECRET}@db/{SECRET}: token={SECRET}"
    backend.replies["health"] = Reply(0, 200, {"agent": "web1", "status": "degraded", "problem": problem})
    row = {"name": "web1", "status": "alive", "sinks": {"hook": {"url": f"http://x/{SECRET}"}}}
    backend.lists("agents", [row | {"functions": {"keys": [SECRET]}}])
    job = {"job": "shop/top", "state": "running", "text": f"SELECT '{SECRET}'", "samples": [SECRET]}
    backend.lists("list", [job])
    ran = elf("doctor", "-c", str(config), "--api", api, "--bundle", str(target), "--log", str(log))
    found = files_of(target)
    assert {name for name, text in found.items() if SECRET in text} == set()
    assert found.keys() == {
        *("versions.json", "checks.json", "agent.log", "configuration.json"),
        *("health.json", "agents.json", "jobs.json"),
    }
    assert all(name in ran.stderr for name in found)
    assert "joined the overlay" in found["agent.log"]
    assert '"topic":"t"' in found["configuration.json"]
    assert "https://hooks.example.org" in found["configuration.json"]
    assert '"state":"running"' in found["jobs.json"]
    assert '"python"' in found["versions.json"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"password": "x", "n": 1}, {"password": "***", "n": 1}),
        ({"tls": {"key": "/a/key.pem", "dir": "/a"}}, {"tls": {"key": "***", "dir": "/a"}}),
        ({"headers": {"X-Any": "x", "n": 3}}, {"headers": {"X-Any": "***", "n": "***"}}),
        (["tcp://a:1/x", True, None, 1.5], ["tcp://a:1", True, None, 1.5]),
        ({"tokens": ["a", "b"], "require_key": False}, {"tokens": ["***", "***"], "require_key": False}),
        ({"rows": [1], "text": "SELECT", "ok": 1}, {"ok": 1}),
    ],
)
def test_what_is_masked(value: Any, expected: Any) -> None:
    assert redacted(value) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("to HTTPS://u:hunter2@db/x now", "to HTTPS://db now"),
        ("postgres://u:p@hunter2@db/x", "postgres://db"),
        ("postgres://u:hunter2/hunter2@db/x", "postgres://***"),
        ("https://db/x?hunter2#hunter2", "https://db"),
        ('{"password": "a\\"hunter2", "n": 1}', '{"password": ***, "n": 1}'),
        ("AWS_SECRET_ACCESS_KEY=hunter2 x", "AWS_SECRET_ACCESS_KEY=*** x"),
        ("private_key: hunter2", "private_key: ***"),
        ("passphrase=hunter2", "passphrase=***"),
        ("Cookie: session=hunter2; id=hunter2", "Cookie: ***"),
        ("Authorization: Token hunter2", "Authorization: *** ***"),
    ],
)
def test_what_is_masked_in_a_line_of_the_log(tmp_path: Path, text: str, expected: str) -> None:
    log = tmp_path / "log"
    log.write_text(text)
    assert agent_log(log) == f"{expected}\n"


def test_the_log_of_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    log.write_text("first\n" + "x\n" * 3000)
    assert agent_log(log) == "x\n" * doctor_bundle.LOG_LINES
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert "--log FILE" in agent_log(None)
    ran = elf("doctor", "--bundle", str(tmp_path / "b"), "--log", str(tmp_path / "nosuch"))
    assert (ran.exit_code, "nosuch: No such file" in ran.stderr) == (1, True)
    assert not (tmp_path / "b").exists()


def test_a_bundle_is_whole_or_absent(tmp_path: Path) -> None:
    assert write_bundle(tmp_path / "a", {"n.txt": "x", "v.json": {"a": 1}}) == [("n.txt", 1), ("v.json", 8)]
    assert files_of(tmp_path / "a") == {"n.txt": "x", "v.json": '{"a":1}\n'}
    ran = elf("doctor", "--bundle", str(tmp_path / "no" / "b"))
    assert (ran.exit_code, "No such file or directory" in ran.stderr) == (1, True)
