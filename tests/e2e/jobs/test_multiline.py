"""Stack traces on a real agent: a record is all its lines, through a kill in the middle of one."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.fleet import Agent, Fleet, eventually
from tests.e2e.test_inputs import wait_total

JOB = """CREATE JOB e2e.traces AS SELECT level, count(*) AS n FROM app
GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), level ORDER BY level"""
CONFIG = """
[streams.app]
path = "{log}"
format = 'grok:(?s)%{{TIMESTAMP_ISO8601:ts}} %{{LOGLEVEL:level}} %{{GREEDYDATA:message}}'
multiline = "trace"
idle = "1 h"
"""
STAMP = "2015-05-17T10:05:03Z"
LAST = "2015-05-17T12:00:00Z INFO later\n"
"""Closes the interval of the others: no pause of a busy machine does."""

TRACE = f"{STAMP} ERROR it broke\n\tat a.b(C.java:1)\nCaused by: x\n\t... 3 more\n"


def test_a_trace_is_one_record_through_a_kill_within_it(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    (tmp_path / "agent.toml").write_text(CONFIG.format(log=log))
    log.write_text(TRACE * 20 + f"{STAMP} INFO fine\n" * 5 + f"{STAMP} ERROR half\n\tat a.b")
    with Fleet(tmp_path) as fleet:
        agent = Agent(tmp_path / "one", 1, [], ["-c", str(tmp_path / "agent.toml")])
        fleet.agents.append(agent)
        agent.start()
        agent.wait_ready()
        agent.apply(JOB)
        eventually(lambda: agent.get("/v1/agent")["sources"]["app"]["lines"], what="the first lines")
        agent.kill()
        with log.open("a") as file:
            file.write("(C.java:1)\n\tat d.e(F.java:2)\n" + TRACE + LAST)
        agent.start()
        agent.wait_ready()
        wait_total(agent, "e2e/traces", "level", {"ERROR": 22, "INFO": 5})
