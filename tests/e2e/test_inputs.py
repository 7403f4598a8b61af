"""Agents whose streams come over the network: what was acknowledged is counted once, whatever happens."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
from pathlib import Path

import pytest

from tests.e2e.fleet import Agent, Fleet
from tests.patience import PATIENCE_S
from tests.ports import reserve

JOB = """CREATE JOB e2e.posts AS SELECT k, count(*) AS n FROM posts
GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), k ORDER BY k"""
SYSLOG = """CREATE JOB e2e.syslog AS SELECT severity, count(*) AS n FROM messages
GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), severity ORDER BY severity"""


def post(port: int, lines: list[str]) -> None:
    body = "\n".join(lines).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", data=body, timeout=PATIENCE_S) as answer:
        assert json.loads(answer.read()) == {"lines": len(lines)}


def lines(count: int, key: str) -> list[str]:
    return [json.dumps({"ts": "2015-05-17T10:05:03Z", "k": key}) for _ in range(count)]


LAST = json.dumps({"ts": "2015-05-17T12:00:00Z", "k": "later"})
"""Closes the interval of the others: no pause of a busy machine does."""


def total(agent: Agent, job: str, column: str) -> dict[str, int]:
    """The rows of the one interval that has any, as far as it is known."""
    rows = [row for result in agent.results(job, wait_s=0.5) for row in result["rows"]]
    return {row[column]: row["n"] for row in rows}


def wait_total(agent: Agent, job: str, column: str, expected: dict[str, int]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (found := total(agent, job, column)) != expected:
        assert time.monotonic() < deadline, (found, agent.errors())


def test_what_was_posted_is_counted_once_through_a_kill(tmp_path: Path) -> None:
    port = reserve()
    with Fleet(tmp_path) as fleet:
        stream = f"posts=http://127.0.0.1:{port},format=json,idle=1 h"
        agent = Agent(tmp_path / "one", 1, [stream])
        fleet.agents.append(agent)
        agent.start()
        agent.wait_ready()
        agent.apply(JOB)
        post(port, lines(50, "a"))
        agent.kill()
        agent.start()
        agent.wait_ready()
        post(port, [*lines(30, "a"), *lines(7, "b"), LAST])
        wait_total(agent, "e2e/posts", "k", {"a": 80, "b": 7})
        inputs = agent.get("/v1/agent")["inputs"]["posts"]
        assert inputs["messages"] == 38
        assert inputs["spool_bytes"] > 0


@pytest.mark.parametrize("scheme", ["udp", "tcp"])
def test_syslog_over_the_network(tmp_path: Path, scheme: str) -> None:
    kind = socket.SOCK_DGRAM if scheme == "udp" else socket.SOCK_STREAM
    port = reserve()
    with Fleet(tmp_path) as fleet:
        stream = f"messages={scheme}://127.0.0.1:{port},format=syslog,idle=1 h"
        agent = Agent(tmp_path / "one", 1, [stream])
        fleet.agents.append(agent)
        agent.start()
        agent.wait_ready()
        agent.apply(SYSLOG)
        with socket.socket(socket.AF_INET, kind) as sender:
            sender.connect(("127.0.0.1", port))
            for number in range(40):
                priority = 13 if number % 4 else 11
                sender.sendall(f"<{priority}>1 2015-05-17T10:05:03Z h app - - - m {number}\n".encode())
            sender.sendall(b"<13>1 2015-05-17T12:00:00Z h app - - - later\n")
        wait_total(agent, "e2e/syslog", "severity", {"err": 10, "notice": 30})


def test_an_address_that_others_can_reach_is_refused(tmp_path: Path) -> None:
    agent = Agent(tmp_path / "one", 1, ["messages=udp://0.0.0.0:5514"])
    agent.start()
    assert agent.process is not None
    assert agent.process.wait(PATIENCE_S) == 78
    assert agent.process.stdout is not None
    agent.process.stdout.close()
    assert "streams.messages.listen" in agent.errors()
