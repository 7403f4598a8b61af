"""An agent that leaves for good: `elf leave` ends it, and every interval is complete."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.fleet import Agent, Fleet, eventually
from tests.e2e.live import LIVE, PATIENT, Traffic, oracle
from tests.e2e.zygote import elf
from tests.patience import PATIENCE_S


def test_an_agent_that_leaves_is_missed_by_no_interval(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.start(3)
        fleet.apply(LIVE)
        with Traffic(fleet, [0, 1, 2]) as traffic:
            eventually(lambda: len(fleet[0].results("e2e/live")) >= 2, what="the first results")
            master = fleet[0].get("/v1/jobs/e2e/live")["master"]
            leaver = next(agent for agent in fleet if agent.name != master)
            reported = elf("leave", "--api", leaver.api)
            assert reported.returncode == 0, reported.stderr
            assert reported.stdout == f"{leaver.name} has left 1 job and stops\n"
            assert leaver.process is not None
            assert leaver.process.wait(PATIENCE_S) == 0
            traffic.numbers.remove(leaver.number)
            others = next(agent for agent in fleet if agent not in (leaver,))
            last = others.results("e2e/live")[-1]["interval"]["index"]
            after = eventually(lambda: others.results("e2e/live", last + 3), what="results without it")
        assert {result["agents"]["expected"] for result in after} == {2}
        found = {result["interval"]["index"]: result for result in others.results("e2e/live")}
        assert {result["state"] for result in found.values()} == {"FINAL"}
        paths = []
        for number, lines in traffic.written.items():
            paths.append(tmp_path / f"written-{number}.log")
            paths[-1].write_text("".join(line + "\n" for line in lines))
        expected = oracle(paths, LIVE)
        for index, result in found.items():
            if result["agents"]["expected"] == 3:
                assert result["rows"] == expected[index]["rows"]


OPEN = f"""CREATE JOB e2e.open DEADLINE '1 s' {PATIENT} AS
SELECT k, count(*) AS n FROM log GROUP BY {{}}, k ORDER BY k"""
HOUR = "TUMBLE(ts, INTERVAL '1' HOUR)"
HOP = "HOP(ts, INTERVAL '10' MINUTE, INTERVAL '60' MINUTE)"
LINES = 30


def write(fleet: Fleet, agent: Agent, at: str) -> None:
    with fleet.log(agent.number).open("a") as file:
        file.write(f'{{"ts": "2015-05-17T{at}Z", "k": "web{agent.number}"}}\n' * LINES)


@pytest.mark.parametrize(("window", "windows"), [(HOUR, 1), (HOP, 6)])
@pytest.mark.parametrize("of_master", [False, True])
def test_an_agent_that_leaves_at_once_hands_its_open_windows_over(
    tmp_path: Path, window: str, windows: int, of_master: bool
) -> None:
    with Fleet(tmp_path) as fleet:
        for number in range(4):
            fleet.start(1, options=",format=json,idle=1 h", extra=["--label", f"rack=r{number % 2}"])
        for agent in fleet:
            write(fleet, agent, "09:15:00")
        fleet.apply(OPEN.format(window))
        for agent in fleet:
            write(fleet, agent, "10:15:00")
        job = "e2e/open"
        eventually(lambda: fleet[0].results(job), what="the first window")
        master = fleet[0].get(f"/v1/jobs/{job}")["master"]
        leaver = next(agent for agent in fleet if (agent.name == master) is of_master)
        write(fleet, leaver, "10:16:00")
        began = time.monotonic()
        done = elf("leave", "--now", "--api", leaver.api)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{leaver.name} has left 1 job and stops\n"
        assert leaver.process is not None
        assert leaver.process.wait(PATIENCE_S) == 0
        print(f"left after {time.monotonic() - began:.2f} s")
        others = [agent for agent in fleet if agent is not leaver]
        closed = {each["interval"]["index"] for each in others[0].results(job)}
        for agent in others:
            write(fleet, agent, "12:25:00")

        def later() -> list[dict[str, Any]]:
            found = [each for each in others[0].results(job) if each["interval"]["index"] not in closed]
            mine = [each for each in found if leaver_in(each)]
            return mine if len(mine) >= windows else []

        def leaver_in(record: dict[str, Any]) -> bool:
            return bool(record["interval"]["start"] <= "2015-05-17T10:15" < record["interval"]["end"])

        records = eventually(later, what="the windows that were open")
        assert len(records) == windows
        for record in records:
            assert (record["state"], record["completeness"]) == ("FINAL", 1.0)
            rows = {row["k"]: row["n"] for row in record["rows"]}
            assert rows[f"web{leaver.number}"] >= 2 * LINES
            assert all(rows[f"web{agent.number}"] >= LINES for agent in others)


def test_an_agent_of_a_pod_leaves_when_it_is_stopped_and_its_open_window_is_complete(tmp_path: Path) -> None:
    (settings := tmp_path / "agent.toml").write_text('on_stop = "leave"\n')
    with Fleet(tmp_path) as fleet:
        fleet.start(3, options=",format=json,idle=1 h", extra=["--config", str(settings)])
        for agent in fleet:
            write(fleet, agent, "09:15:00")
        fleet.apply(OPEN.format(HOUR))
        for agent in fleet:
            write(fleet, agent, "10:15:00")
        eventually(lambda: fleet[0].results("e2e/open"), what="the first window")
        assert fleet[2].process is not None
        fleet[2].process.terminate()
        assert fleet[2].process.wait(PATIENCE_S) == 0
        for agent in (fleet[0], fleet[1]):
            write(fleet, agent, "12:25:00")
        record = eventually(lambda: fleet[0].results("e2e/open")[1:], what="the open window")[0]
        assert (record["state"], record["completeness"]) == ("FINAL", 1.0)
        assert {row["k"]: row["n"] for row in record["rows"]}["web2"] == LINES


def test_what_cannot_be_handed_over_is_named_and_the_agent_goes_on(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.start(1, options=",format=json,idle=1 h")
        fleet[0].apply(OPEN.format(HOUR))
        write(fleet, fleet[0], "10:15:00")
        with pytest.raises(AssertionError, match="now must be true or false"):
            fleet[0].ask("POST", "/v1/agent/leave?now=perhaps")
        done = elf("leave", "--now", "--wait", "1 s", "--api", fleet[0].api)
        assert done.returncode == 1
        assert f"{fleet[0].name} is still leaving e2e/open (no other agent is a member)" in done.stderr
        assert fleet[0].process is not None
        assert fleet[0].process.poll() is None
