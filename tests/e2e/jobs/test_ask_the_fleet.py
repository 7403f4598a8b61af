"""`elf query` over a stream on real agents: rows of `elf run`, missing agents by name, no job left behind."""

from __future__ import annotations

import datetime
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.e2e.fleet import Agent, Fleet, eventually
from tests.e2e.zygote import elf

pytestmark = pytest.mark.apart

COUNT = "SELECT status, count(*) AS n, sum(ms) AS ms FROM log GROUP BY status ORDER BY status"
MINUTES = (
    "SELECT window_start AS start, status, count(*) AS n FROM log"
    " GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), status"
)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        for number in range(3):
            write(fleet.log(number), number, time.time())
        fleet.start(3)
        yield fleet


def write(path: Path, seed: int, now: float) -> None:
    """Records of the last 20 minutes in any order."""
    rng = random.Random(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for _ in range(500):
            at = datetime.datetime.fromtimestamp(now - 1 - 1200 * rng.random(), datetime.UTC)
            ts = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            record = {"ts": ts, "status": rng.choice([200, 404, 500]), "ms": rng.randrange(100)}
            file.write(json.dumps(record) + "\n")


def records(fleet: Fleet) -> list[dict[str, Any]]:
    return [json.loads(line) for number in range(3) for line in fleet.log(number).read_text().splitlines()]


def ask(agent: Agent, text: str, *options: str, code: int = 0) -> tuple[list[dict[str, Any]], str]:
    patient = () if "--wait" in options else ("--wait", "300 s")  # for agents of a busy machine
    done = elf("query", text, "-o", "json", "--api", agent.api, *options, *patient)
    assert done.returncode == code, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def run(fleet: Fleet, text: str) -> list[dict[str, Any]]:
    paths = [fleet.log(number) for number in range(3)]
    done = elf("run", text, *paths, "--format", "json", "-o", "json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def jobs(agent: Agent) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = agent.get("/v1/jobs")["jobs"]
    return found


def members(agent: Agent) -> list[str]:
    """The agents that work on a job."""
    return [row["name"] for row in agent.get("/v1/agents")["agents"] if row.get("jobs")]


def test_rows_are_those_of_run_over_the_same_files_and_no_job_is_left(fleet: Fleet, tmp_path: Path) -> None:
    (answer,), noted = ask(fleet[0], COUNT, "--history", "1 h", "--complete")
    (expected,) = run(fleet, COUNT)
    assert answer["rows"] == expected["rows"]
    assert answer["interval"] == expected["interval"] == {"index": 0, "start": None, "end": None}
    assert (answer["completeness"], answer["agents"]) == (1.0, {"in": 3, "expected": 3, "missing": []})
    assert "completeness 1: 3 of 3 agents" in noted
    windows, _ = ask(fleet[1], MINUTES, "--history", "1 h")
    assert [each["rows"] for each in windows] == [each["rows"] for each in run(fleet, MINUTES)]
    assert len(windows) > 15
    path = tmp_path / "answer.parquet"
    ask(fleet[0], COUNT, "--history", "1 h", "-o", "parquet", "--output", str(path))
    assert pq.read_table(path).select(["status", "n", "ms"]).to_pylist() == expected["rows"]
    assert jobs(fleet[0]) == []
    eventually(lambda: not members(fleet[0]), what="free agents")


def test_lists_are_one_group_on_agents_that_read_other_types(fleet: Fleet) -> None:
    """One log has a fraction, so its lists are of doubles; the others have lists of integers."""
    first = json.loads(fleet.log(2).read_text().splitlines()[0])
    with fleet.log(2).open("a") as file:
        file.write(json.dumps(first | {"ms": 0.5}) + "\n")
    text = (
        "SELECT array(status, ms % 3) AS k, count(*) AS n, count(DISTINCT array(ms, NULL)) AS d FROM log"
        " GROUP BY array(status, ms % 3)"
    )
    (answer,), _ = ask(fleet[0], text, "--history", "1 h", "--complete")
    (expected,) = run(fleet, text)
    assert answer["rows"] == expected["rows"]
    assert sorted({each["k"][1] for each in answer["rows"]}) == [0, 0.5, 1, 2]
    assert sum(each["n"] for each in answer["rows"]) == 1501


def test_history_begins_at_the_stated_time(fleet: Fleet) -> None:
    before = time.time()
    (answer,), _ = ask(fleet[0], "SELECT count(*) AS n, min(ts) AS first FROM log", "--history", "10 min")
    after = time.time()
    (row,) = answer["rows"]
    times = sorted(datetime.datetime.fromisoformat(each["ts"]).timestamp() for each in records(fleet))
    least, most = (sum(at >= now - 600 for at in times) for now in (after, before))
    assert least <= row["n"] <= most
    assert datetime.datetime.fromisoformat(row["first"]).timestamp() >= before - 600
    (nothing,), _ = ask(
        fleet[0], "SELECT count(*) AS n FROM log WHERE status = 7", "--history", "10 min", "-o", "json"
    )
    assert nothing["rows"] == [{"n": 0}]


def test_a_second_query_reads_the_records_of_its_range_only(fleet: Fleet) -> None:
    """The first one makes the time index of the logs; records that are passed over are in no bucket."""
    day = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    for number in range(3):
        with fleet.log(number).open("a") as file:
            for at in range(0, 86_400, 4):
                ts = (day + datetime.timedelta(seconds=at)).isoformat()
                file.write(json.dumps({"ts": ts, "status": 200, "ms": 1, "pad": "x" * 1200}) + "\n")
    hour = ("--from", "2026-01-01T20:00:00Z", "--to", "2026-01-01T21:00:00Z", "--complete")
    ((first,), _), ((second,), _) = (ask(fleet[0], COUNT, *hour) for _ in range(2))
    assert first["rows"] == second["rows"] == [{"status": 200, "n": 2700, "ms": 2700}]
    assert first["counts"]["filtered"] == 54_000
    assert second["counts"]["filtered"] < first["counts"]["filtered"] / 2


def test_a_query_between_two_times_has_the_rows_of_run(fleet: Fleet) -> None:
    times = sorted(each["ts"] for each in records(fleet))
    between = ("--from", times[len(times) // 4], "--to", times[len(times) // 2])
    (answer,), noted = ask(fleet[0], COUNT, *between, "--complete")
    paths = [fleet.log(number) for number in range(3)]
    done = elf("run", COUNT, *paths, "--format", "json", "-o", "json", *between)
    assert answer["rows"] == json.loads(done.stdout)["rows"] != []
    assert "completeness 1: 3 of 3 agents" in noted
    inside = [each for each in times if between[1] <= each < between[3]]
    assert sum(row["n"] for row in answer["rows"]) == len(inside)


def test_a_dead_agent_is_named_and_the_answer_is_not_complete(fleet: Fleet) -> None:
    fleet[2].kill()
    (answer,), noted = ask(fleet[0], COUNT, "--history", "1 h", "--wait", "10 s", "--complete", code=1)
    assert (answer["agents"]["in"], answer["agents"]["expected"]) == (2, 3)
    assert answer["completeness"] == pytest.approx(2 / 3)
    assert answer["state"] == "FINAL_PARTIAL"
    (missing,) = answer["agents"]["missing"]
    assert missing in (fleet[2].name, fleet[2].overlay)
    assert f"missing: {missing}: it is dead" in noted
    assert "the answer is not complete" in noted


def started(agent: Agent) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    """A query that waits for new records, and its job."""
    words = ["query", COUNT, "--history", "1 h", "--until", "10 min", "--api", agent.api]
    process = subprocess.Popen(
        [sys.executable, "-m", "elfmesh.agent", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    (row,) = eventually(lambda: [row for row in jobs(agent) if row["agents"] == 3], what="the job")
    return process, row


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_query_ends_with_its_command(fleet: Fleet, number: signal.Signals) -> None:
    process, _ = started(fleet[0])
    os.kill(process.pid, number)
    process.communicate()
    eventually(lambda: not jobs(fleet[1]), what="the end of the job")
    eventually(lambda: not members(fleet[1]), what="free agents")
    assert process.returncode != 0


def test_a_query_ends_although_its_master_dies_with_its_command(fleet: Fleet) -> None:
    process, row = started(fleet[0])
    master = next(agent for agent in fleet if agent.name == row["master"])
    process.kill()
    master.kill()
    process.communicate()
    left = next(agent for agent in fleet if agent is not master)
    eventually(lambda: not jobs(left), what="the end of the job")


def test_queries_are_listed_and_cancelled(fleet: Fleet) -> None:
    process, row = started(fleet[0])
    api = fleet[2].api
    words = ("get", "queries", "-o", "json", "--api", api)
    listed = json.loads(eventually(lambda: elf(*words).stdout, what="the query in the list"))
    assert (listed["query"], listed["creator"]) == (row["job"], row["creator"])
    done = elf("cancel", row["job"].partition("/")[2], "--api", api)
    assert (done.returncode, done.stdout) == (0, f"{row['job']}: cancelled\n")
    _, noted = process.communicate()
    assert process.returncode == 1
    assert f"{row['job']} was cancelled" in noted.decode()
    assert elf("cancel", "q-1", "--api", api).returncode == 1


def test_a_job_with_history_and_an_end_keeps_its_results(fleet: Fleet) -> None:
    text = f"CREATE JOB e2e.past AS {MINUTES}".replace("FROM log", "FROM log HISTORY '1 h' UNTIL HISTORY")
    fleet[0].apply(text)
    eventually(partial(state, fleet[1], "complete"), what="the end")
    found = fleet[1].results("e2e/past")
    assert [each["rows"] for each in found] == [each["rows"] for each in run(fleet, MINUTES)]
    assert fleet[0].apply(text)["state"] == "unchanged"
    done = elf("apply", "-f", "-", "--api", fleet[0].api, stdin=text.replace("'1 h'", "'2 h'"))
    assert done.returncode != 0
    assert "HISTORY and UNTIL of a running job cannot be changed" in done.stderr
    assert elf("status", "--api", fleet[0].api).returncode == 0
    fleet[0].ask("DELETE", "/v1/jobs/e2e/past")


def state(agent: Agent, wanted: str) -> bool:
    return bool(agent.get("/v1/jobs/e2e/past")["state"] == wanted)


def test_an_agent_runs_a_limited_number_of_queries(tmp_path: Path) -> None:
    config = tmp_path / "none.toml"
    config.write_text("[limits]\nadhoc_jobs = 0\n")
    with Fleet(tmp_path) as fleet:
        fleet.start(1, extra=["-c", str(config)])
        done = elf("query", COUNT, "--history", "1 h", "--api", fleet[0].api)
    assert done.returncode != 0
    assert (
        "agent-0: this agent works on 0 queries already: its limits.adhoc_jobs allows no more" in done.stderr
    )


def test_the_cost_is_known_before_and_an_agent_with_a_limit_is_missing_by_name(tmp_path: Path) -> None:
    config = tmp_path / "little.toml"
    config.write_text('[limits]\nquery_bytes = "1 KB"\n')
    with Fleet(tmp_path) as fleet:
        for number in range(3):
            write(fleet.log(number), number, time.time())
        fleet.start(2)
        fleet.start(1, extra=["-c", str(config)])

        def cost() -> dict[str, Any] | None:
            """What all agents answer; one that is busy, or has just come, may not be among them."""
            done = elf("explain", "--cost", COUNT, "-o", "json", "--api", fleet[0].api)
            found: dict[str, Any] = json.loads(done.stdout)
            return found if len(found["agents"]) == 3 else None

        found = eventually(cost, what="the cost on three agents")
        sizes = [fleet.log(number).stat().st_size for number in range(3)]
        assert [row["bytes"] for row in found["agents"]] == sizes
        assert [row["lines"] for row in found["agents"]] == [500, 500, 500]
        assert found["bytes"] == sum(sizes[:2])
        assert [row["streams"][0]["measured_on"] for row in found["agents"]] == ["sample"] * 3
        assert all(row["seconds"] > 0 for row in found["agents"])
        why = f"it would read {sizes[2] / 1000:.0f} KB, and its limits.query_bytes allows 1.0 KB"
        assert [row["refusal"] for row in found["agents"]] == ["", "", why]
        (answer,), noted = ask(fleet[0], COUNT, "--history", "1 h")
        assert answer["agents"] == {"in": 2, "expected": 3, "missing": ["agent-2"]}
        assert answer["state"] == "FINAL_PARTIAL"
        assert f"missing: agent-2: {why}" in noted
        text = f"CREATE JOB e2e.all EVERY '1 min' AS {MINUTES}"
        assert elf("apply", "-f", "-", "--api", fleet[0].api, stdin=text).returncode == 0
        eventually(lambda: len(jobs(fleet[0])) == 1 and jobs(fleet[0])[0]["agents"] == 3, what="all members")


def test_a_query_that_every_agent_refuses_fails_with_the_reason(tmp_path: Path) -> None:
    config = tmp_path / "little.toml"
    config.write_text('[limits]\nquery_bytes = "1 KB"\n')
    with Fleet(tmp_path) as fleet:
        write(fleet.log(0), 0, time.time())
        fleet.start(1, extra=["-c", str(config)])
        done = elf("query", COUNT, "--history", "1 h", "--api", fleet[0].api)
        assert done.returncode == 65
        assert "every agent with the streams refuses the query: agent-0: it would read" in done.stderr
        assert jobs(fleet[0]) == []
