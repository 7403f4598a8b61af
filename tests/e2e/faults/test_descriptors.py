"""An agent that may open no more files waits, says so, and has lost nothing when it may again."""

from __future__ import annotations

import http.client
import itertools
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from elfmesh.ingest.authority.audit_chain import read_entries, verify
from tests.e2e.fleet import Agent, Fleet, eventually
from tests.e2e.live import now
from tests.patience import PATIENCE_S

TEXT = """CREATE JOB e2e.{} DEADLINE '1 h' AS SELECT k, count(*) AS n
FROM log GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k"""
STANDARD = 3
"""Descriptors of every process: of more than these none can be opened any more."""


EXHAUSTED = f"the process has no file descriptor left (RLIMIT_NOFILE is {STANDARD})"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="prlimit(2) is Linux's")


def is_named(master: Agent, starved: Agent) -> bool:
    """Whether the job names the reason of an agent, or that it does not answer.

    Without a descriptor it can report to a master only if they were connected before.
    """
    reason = EXHAUSTED in str(master.get("/v1/jobs/e2e/first")["errors"])
    return reason or starved.name in master.get("/v1/jobs/e2e/first/why")["because"]


@pytest.mark.parametrize("leads", [True, False])
def test_an_agent_without_descriptors_waits_and_loses_nothing(tmp_path: Path, leads: bool) -> None:
    numbers = itertools.count()

    def write(fleet: Fleet, count: int = 50) -> None:
        for agent in fleet:
            lines = [{"ts": now(), "k": "a", "i": next(numbers)} for _ in range(count)]
            with fleet.log(agent.number).open("a") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)

    with Fleet(tmp_path) as fleet:
        fleet.start(3, options=",format=json,idle=1 s")
        fleet.apply(TEXT.format("first"))
        write(fleet)
        eventually(lambda: fleet[0].results("e2e/first"), what="results")
        names = {agent.name: agent for agent in fleet}
        master = names[fleet[0].get("/v1/jobs/e2e/first")["master"]]
        starved = master if leads else next(agent for agent in fleet if agent is not master)
        other = next(agent for agent in fleet if agent is not starved)
        assert starved.process is not None
        kept = http.client.HTTPConnection(starved.api, timeout=PATIENCE_S)

        def health() -> dict[str, Any]:
            kept.request("GET", "/v1/health", headers=starved.headers())
            body: dict[str, Any] = json.loads(kept.getresponse().read())
            return body

        assert health()["status"] == "ok"
        limits = resource.prlimit(starved.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(starved.process.pid, resource.RLIMIT_NOFILE, (STANDARD, limits[1]))
        write(fleet)
        waiting = eventually(lambda: (found := health())["status"] == "waiting" and found, what="the wait")
        assert EXHAUSTED in waiting["problem"]
        kept.request("GET", "/v1/jobs/e2e/first/why", headers=starved.headers())
        reported = json.loads(kept.getresponse().read())
        if leads:
            assert f"{starved.name}, which leads the job, waits: " in reported["because"]
        else:
            eventually(lambda: is_named(other, starved), what="its reason")
        log = fleet.log(starved.number)
        log.rename(log.with_name(log.name + ".1"))
        log.touch()
        write(fleet)
        other.apply(TEXT.format("second"))
        write(fleet)
        kept.close()
        assert starved.process.poll() is None, starved.errors()
        resource.prlimit(starved.process.pid, resource.RLIMIT_NOFILE, limits)

        def counted() -> int:
            return sum(row["n"] for result in other.results("e2e/first") for row in result["rows"])

        write(fleet)
        written = next(numbers)
        eventually(lambda: counted() == written, what=f"all {written} records")
        eventually(lambda: other.results("e2e/second"), what="results of what was applied meanwhile")
        for result in (*other.results("e2e/first"), *other.results("e2e/second")):
            assert (result["state"], result["completeness"]) == ("FINAL", 1.0)
            assert not result["agents"]["missing"]
            assert not result["counts"].get("source_gap")
        # an agent that answers too late to be a founding member of a new job comes in a little later
        assert {result["agents"]["in"] for result in other.results("e2e/first")} == {3}
        eventually(lambda: not other.get("/v1/jobs/e2e/first")["errors"], what="no error any more")
        assert "waits for 0 s: the host lacks a resource" in starved.errors()
        assert starved.terminate() == 0


def test_an_agent_that_starts_without_descriptors_reports_it_and_loses_nothing(tmp_path: Path) -> None:
    """It ends with an error that names the limit, wherever in the start it needs one more."""
    with Fleet(tmp_path) as fleet:
        fleet.start(1, options=",format=json,idle=1 s")
        agent = fleet[0]
        agent.apply(TEXT.format("first"))
        line = {"ts": now(), "k": "a"}
        with fleet.log(0).open("a") as file:
            file.write(f"{json.dumps(line)}\n")
        found = eventually(lambda: agent.results("e2e/first"), what="results")
        assert agent.terminate() == 0
        for limit in (8, 11, 14):
            done = subprocess.run(
                ["/bin/sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", *agent.command([])],
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE_S,
            )
            assert (done.returncode, done.stdout) == (1, "")
            assert f"The process has no file descriptor left (RLIMIT_NOFILE is {limit})." in done.stderr
            assert "Traceback" not in done.stderr
        agent.start()
        known = agent.id
        agent.wait_ready()
        assert agent.id == known
        eventually(lambda: agent.results("e2e/first")[: len(found)] == found, what="the results that it had")


CONFIG = """
[streams.log]
path = "{root}/a.log"
format = "json"
idle = "1 s"

[streams.log.archive]
path = "{root}/archive"
every = "100 ms"

[sinks.files]
type = "parquet"
jobs = ["*"]
path = "{root}/parquet"
"""


def test_archive_sink_and_audit_log_wait_for_descriptors_too(tmp_path: Path) -> None:
    numbers, log = itertools.count(), tmp_path / "a.log"

    def write(count: int = 50) -> None:
        with log.open("a") as file:
            lines = [{"ts": now(), "k": "a", "i": next(numbers)} for _ in range(count)]
            file.writelines(json.dumps(line) + "\n" for line in lines)

    def rows(folder: str, column: str) -> list[Any]:
        found = [pq.ParquetFile(path).read() for path in (tmp_path / folder).rglob("*.parquet")]
        return [value for each in found if column in each.column_names for value in each[column].to_pylist()]

    log.touch()
    (tmp_path / "agent.toml").write_text(CONFIG.format(root=tmp_path))
    with Fleet(tmp_path) as fleet:
        fleet.start(1, stream="other", extra=("-c", str(tmp_path / "agent.toml")))
        agent = fleet[0]
        agent.apply(TEXT.format("first"))
        write()
        eventually(lambda: sum(rows("parquet", "n")) == 50, what="rows in the sink")
        assert agent.process is not None
        kept = http.client.HTTPConnection(agent.api, timeout=PATIENCE_S)

        def health() -> dict[str, Any]:
            kept.request("GET", "/v1/health", headers=agent.headers())
            body: dict[str, Any] = json.loads(kept.getresponse().read())
            return body

        health()
        limits = resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, (STANDARD, limits[1]))
        for part in range(4):
            write()
            eventually(lambda: EXHAUSTED in health().get("problem", ""), what="the wait")
            if part == 2:
                log.rename(tmp_path / "a.log.1")
                log.touch()
        kept.request(
            "POST", "/v1/jobs/e2e/first/nonsense", headers=agent.headers()
        )  # a line for the audit log
        kept.getresponse().read()
        kept.close()
        resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, limits)
        write()
        written = next(numbers)
        eventually(lambda: sum(rows("parquet", "n")) == written, what="all records in the sink")
        eventually(lambda: len(rows("archive", "_raw")) == written, what="all lines in the archive")
        assert sorted(json.loads(line)["i"] for line in rows("archive", "_raw")) == [*range(written)]
        about = agent.get("/v1/agent")
        assert (about["sinks"]["files"]["jobs"]["e2e/first"]["lost"], about["archives"]["log"]["gaps"]) == (
            0,
            0,
        )
        eventually(lambda: agent.get("/v1/health")["status"] == "ok", what="health")
        assert agent.terminate() == 0
        lines = [entry for _, entry in read_entries(agent.directory / "data" / "audit.log")]
        assert [entry.what for entry in lines][:1] == ["apply"]
        verify(agent.directory / "data")
