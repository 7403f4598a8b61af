"""Three real agents with certificates, one of them by a join token, and people with and without."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from elfmesh.api.client.client import connect
from elfmesh.api.identity.bearer import write_private
from elfmesh.api.identity.ca import Authority, create
from elfmesh.api.identity.joining import make_token
from elfmesh.api.identity.principal import Role
from elfmesh.cli.host.local_agents import says_something
from elfmesh.errors import ElfError, Unreachable
from tests.api.identity.certs import issued
from tests.e2e.fleet import Agent, Fleet, eventually
from tests.e2e.zygote import elf
from tests.patience import PATIENCE_S

JOB = """CREATE JOB shop.top EVERY '10 s' HORIZON '300 s' AS
SELECT k, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), k"""
LINES = 40


def member(fleet: Fleet, number: int, *extra: str) -> Agent:
    directory = fleet.root / f"agent-{number}"
    directory.mkdir(parents=True)
    (directory / "log.ndjson").touch()
    stream = f"log={directory / 'log.ndjson'},format=json,idle=1 h"
    agent = Agent(directory, number, [stream], ["--cluster", "shop", *extra])
    fleet.agents.append(agent)
    return agent


def write(agent: Agent) -> None:
    (agent.directory / "log.ndjson").write_text(
        "".join(
            json.dumps({"ts": f"2015-05-17T10:00:{second:02}Z", "k": "a" if second % 2 else "b"}) + "\n"
            for second in range(LINES)
        )
    )


def serving(ca: Authority) -> tuple[subprocess.Popen[bytes], str]:
    command = [
        sys.executable,
        "-m",
        "elfmesh.agent",
        "ca",
        "serve",
        str(ca.directory),
        "--listen",
        "127.0.0.1:0",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert says_something(process.stdout, PATIENCE_S)
    return process, process.stdout.readline().decode().strip().removeprefix("ready ca=")


def test_agents_with_certificates_run_a_job_and_strangers_get_nothing(tmp_path: Path) -> None:
    ca = create(tmp_path / "pki", "shop")
    ann, rita = issued(ca, "ann", Role.OPERATOR), issued(ca, "rita", Role.READER)
    listener, at = serving(ca)
    try:
        token = make_token(ca, "web3", at, now_s=time.time()).encode()
        with Fleet(tmp_path) as fleet:
            for number in (1, 2):
                files = issued(ca, f"web{number}", Role.AGENT)
                member(fleet, number, "--tls", str(Path(files.cert).parent))
            write_private(tmp_path / "web3.token", token.encode())
            member(fleet, 3, "--token", str(tmp_path / "web3.token"))
            first, *others = fleet.agents
            first.start()
            first.wait_ready()
            for agent in others:
                agent.start([first.overlay])
            for agent in others:
                agent.wait_ready()
            shown = {"ELF_API": others[1].api, "ELF_CERT": ann.cert, "ELF_KEY": ann.key, "ELF_CA": ann.ca}
            (tmp_path / "job.elfql").write_text(JOB)

            def applied() -> bool:
                """Whether all are members: one that is busy comes a little later."""
                done = elf("apply", "-f", str(tmp_path / "job.elfql"), "-o", "json", **shown)
                assert done.returncode == 0, done.stderr
                return bool(json.loads(done.stdout)["acknowledged"] == 3)

            eventually(applied, what="three members")
            for agent in fleet:
                write(agent)
            operator = connect(first.api, cert=ann.cert, key=ann.key, ca=ann.ca)
            interval = next(iter(operator.results("shop/top", follow=True, limit=1)))
            assert interval["completeness"] == 1.0
            assert interval["agents"]["in"] == 3
            assert sorted((row["k"], row["n"]) for row in interval["rows"]) == [("a", 15), ("b", 15)]
            reader = connect(first.api, cert=rita.cert, key=rita.key, ca=rita.ca)
            rows = eventually(lambda: (found := reader.get("agents"))[2:] and found, what="three agents")
            assert [row["security"]["mode"] for row in rows] == ["mutual TLS 1.3"] * 3
            with pytest.raises(ElfError, match="reader"):
                reader.delete("shop/top")
            with pytest.raises(Unreachable):
                connect(first.api).get("agents")
            stranger = member(fleet, 4)
            stranger.extra += ["--join-timeout", "2 s"]
            stranger.start([first.overlay])
            assert stranger.process is not None
            assert stranger.process.wait(PATIENCE_S) == 69
            eventually(lambda: operator.agent()["transport"]["refused_tls"] >= 1, what="the refusal")
    finally:
        listener.terminate()
        listener.communicate(timeout=PATIENCE_S)


def test_addresses_of_others_need_certificates(tmp_path: Path) -> None:
    for words in (["--listen", "0.0.0.0:0"], ["--join", "10.0.0.5:7400"]):
        done = elf("agent", "--data-dir", str(tmp_path / "data"), "--api", "127.0.0.1:0", *words)
        assert done.returncode == 78, done.stderr
        assert "no certificates are configured" in done.stderr
        assert "Traceback" not in done.stderr
