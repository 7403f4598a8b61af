"""Sinks of a real agent: what the API says is there, each interval once, though it is killed between."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds

from elfmesh.spark_bridge.joblog import JobLog
from tests.e2e.fleet import Agent, Fleet, eventually
from tests.e2e.live import Traffic
from tests.e2e.test_agents import append, close, records
from tests.e2e.test_kafka_to_sinks import receiver
from tests.e2e.zygote import elf
from tests.patience import PATIENCE_S

JOB = """CREATE JOB e2e.sunk AS SELECT k, count(*) AS n FROM log
GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k ORDER BY k"""


def configuration(root: Path) -> Path:
    path = root / "agent.toml"
    path.write_text(f"""
[sinks.files]
type = "parquet"
jobs = ["e2e/*"]
path = "{root / "files"}"
[sinks.shown]
type = "prometheus"
jobs = ["e2e.sunk"]
""")
    return path


def published(agent: Agent) -> dict[tuple[int, str], int]:
    return {
        (each["interval"]["index"], row["k"]): row["n"]
        for each in agent.results("e2e/sunk")
        for row in each["rows"]
    }


def filed(root: Path) -> Counter[tuple[int, str, int]]:
    directory = root / "files" / "e2e.sunk"
    if not any(directory.rglob("*.parquet")):
        return Counter()
    found = ds.dataset(directory, partitioning="hive", format="parquet").to_table().to_pylist()
    return Counter((row["interval_index"], row["k"], row["n"]) for row in found)


def expected(agent: Agent) -> Counter[tuple[int, str, int]]:
    return Counter((index, key, n) for (index, key), n in published(agent).items())


def test_what_is_published_is_in_every_sink_once(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        path = fleet.log(0)
        path.parent.mkdir()
        path.touch()
        extra = ["-c", str(configuration(tmp_path))]
        agent = Agent(path.parent, 0, [f"log={path},format=json,idle=300ms"], extra)
        fleet.agents.append(agent)
        agent.environment = {"ELF_FAILPOINT": "sink.written.parquet:3"}
        agent.start()
        agent.wait_ready()
        agent.apply(JOB)
        with Traffic(fleet, [0], every_s=0.05):
            assert agent.process is not None
            agent.process.wait(PATIENCE_S)
            assert agent.process.stdout is not None
            agent.process.stdout.close()
            agent.environment = {}
            agent.start()
            agent.wait_ready()
            eventually(lambda: len(published(agent)) >= 18, what="the results")
            _check_health(agent, tmp_path)
        eventually(lambda: filed(tmp_path) == expected(agent), what="the files")
        text = eventually(lambda: _metrics(agent, 'elf_result_n{elf_job="e2e/sunk"'), what="metrics")
        assert 'elf_sink_written_total{elf_job="e2e/sunk",elf_sink="files"}' in text
        reported = agent.get("/v1/agent")["sinks"]
        assert reported["files"]["letters"]["files"] == 0


def _metrics(agent: Agent, wanted: str) -> str:
    text = agent.ask("GET", "/metrics").decode()
    return text if wanted in text else ""


def _check_health(agent: Agent, root: Path) -> None:
    """A sink that fails says so, and the job goes on."""
    assert "sinks" not in agent.get("/v1/health")
    (root / "files").rename(root / "moved")
    (root / "files").write_text("in the way")
    eventually(lambda: "files: e2e/sunk" in agent.get("/v1/health").get("sinks", {}), what="the problem")
    before = len(published(agent))
    eventually(lambda: len(published(agent)) > before, what="the job that goes on")
    (root / "files").unlink()
    (root / "moved").rename(root / "files")
    eventually(lambda: "sinks" not in agent.get("/v1/health"), what="the end of the problem")


def test_agents_that_share_a_directory_lose_and_double_nothing_when_the_master_dies(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.start(3, options=",format=json,idle=300ms", extra=["-c", str(configuration(tmp_path))])
        fleet[0].apply(JOB)
        with Traffic(fleet, [0, 1, 2], every_s=0.05) as traffic:
            eventually(lambda: len(filed(tmp_path)) >= 6, what="files")
            leads = fleet[0].get("/v1/jobs/e2e/sunk")["master"]
            (master,) = [agent for agent in fleet if agent.name == leads]
            traffic.numbers.remove(master.number)
            master.kill()
            first, second = (agent for agent in fleet if agent is not master)
            before = filed(tmp_path).total()
            eventually(lambda: filed(tmp_path).total() >= before + 6, what="files after the fail-over")
        eventually(lambda: filed(tmp_path) == expected(first) == expected(second), what="the same files")
        lost = [
            agent.get("/v1/agent")["sinks"]["files"]["jobs"]["e2e/sunk"]["lost"] for agent in (first, second)
        ]
        assert lost == [0, 0]


def test_a_sink_that_is_behind_has_every_interval_from_before_an_update_of_every(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.start(1, options=",format=json,idle=300ms", extra=["-c", str(configuration(tmp_path))])
        agent = fleet[0]
        agent.apply(JOB)
        with Traffic(fleet, [0], every_s=0.05):
            eventually(lambda: len(filed(tmp_path)) >= 3, what="files")
            (tmp_path / "files").rename(tmp_path / "moved")
            (tmp_path / "files").write_text("in the way")
            before = len(published(agent))
            eventually(lambda: len(published(agent)) > before + 9, what="intervals that are in no file")
            first = published(agent)
            agent.apply(JOB.replace("'1'", "'2'"))
            (tmp_path / "files").unlink()
            (tmp_path / "moved").rename(tmp_path / "files")
            eventually(lambda: expected(agent) and filed(tmp_path) >= expected(agent), what="new files")
            held = JobLog.of("e2e/sunk", agent.api).offsets()
        (before_it,) = held.numberings
        log, whose = JobLog.of("e2e/sunk", agent.api), before_it.incarnation
        batches = list(log.batches(before_it.before, before_it.latest, incarnation=whose))
        read = {(row["interval_index"], row["k"]): row["n"] for each in batches for row in each.to_pylist()}
        assert read.items() >= first.items()
        found = filed(tmp_path)
        assert not [each for each in first.items() if found[(*each[0], each[1])] != 1]
        assert agent.get("/v1/agent")["sinks"]["files"]["jobs"]["e2e/sunk"]["lost"] == 0


HOT = """CREATE JOB e2e.hot EARLY '100 ms' AS SELECT k, count(*) AS n FROM log
GROUP BY TUMBLE(ts, INTERVAL '10' MINUTE), k HAVING count(*) >= 5"""


def test_a_webhook_gets_early_rows_before_the_record_of_their_window(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet, receiver() as (port, kept):
        path = tmp_path / "agent.toml"
        path.write_text(f"""
[sinks.calls]
type = "webhook"
jobs = ["e2e/*"]
early = true
url = "http://127.0.0.1:{port}/"
allow = ["127.0.0.0/8"]
""")
        fleet.start(1, options=",format=json,idle=1 h", extra=["-c", str(path)])
        fleet[0].apply(HOT)
        append(fleet.log(0), records(300, 300))

        def rows(state: str) -> dict[str, int]:
            bodies = [body for body in kept.values() if body["state"] == state]
            return {row["k"]: row["n"] for body in bodies for row in body["rows"]}

        early = eventually(lambda: rows("EARLY"), what="early rows")
        assert not rows("FINAL")
        close(fleet, 900)
        final = eventually(lambda: rows("FINAL"), what="the record")
        early = rows("EARLY")
        assert early.keys() <= final.keys()
        assert all(early[k] <= final[k] for k in early)


ALERTING = """CREATE JOB e2e.alerting ALERT seen WHEN n >= 2 FOR 2 INTERVALS AS
SELECT k, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k"""


def lines(key: str, minute: int) -> list[str]:
    """Two records of each of some seconds. No time passes but by records: an alert waits for the next."""
    stamps = [f"2015-05-17T10:{minute:02}:{second:02}Z" for second in range(5) for _ in "12"]
    return [json.dumps({"ts": stamp, "k": key}) for stamp in stamps]


def alerting(root: Path, port: int) -> Path:
    path = root / "agent.toml"
    path.write_text(f"""
[sinks.pager]
type = "webhook"
alerts = true
jobs = ["e2e/*"]
url = "http://127.0.0.1:{port}/hook"
allow = ["127.0.0.0/8"]
""")
    return path


def test_an_alert_fires_and_resolves_across_a_restart(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet, receiver() as (port, kept):

        def states() -> list[str]:
            return [each["state"] for each in kept.values() if each["labels"] == {"k": "a"}]

        fleet.start(1, options=",format=json,idle=1 h", extra=["-c", str(alerting(tmp_path, port))])
        agent = fleet[0]
        agent.apply(ALERTING)
        eventually(lambda: agent.get("/v1/agent")["sinks"]["pager"]["jobs"], what="the sink's job")
        append(fleet.log(0), lines("a", 0))
        eventually(lambda: states() == ["firing"], what="the notification")
        agent.kill()
        agent.start()
        agent.wait_ready()
        append(fleet.log(0), lines("b", 1))
        eventually(lambda: states() == ["firing", "resolved"], what="the end of the alert")

        def shown() -> list[dict[str, object]]:
            found = elf("get", "alerts", "-o", "jsonl", "--api", agent.api).stdout.splitlines()
            return [json.loads(line) for line in found]

        (alert,) = eventually(shown, what="the alert of the other key")
        assert (alert["alert"], alert["job"], alert["labels"]) == ("seen", "e2e/alerting", {"k": "b"})
