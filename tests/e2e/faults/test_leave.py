"""An agent that leaves for good: `elf leave` ends it, and every interval is complete."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.fleet import Fleet, eventually
from tests.e2e.live import LIVE, Traffic, oracle
from tests.e2e.zygote import elf
from tests.patience import PATIENCE_S


def test_an_agent_that_leaves_is_missed_by_no_interval(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.start(3)
        fleet[0].apply(LIVE)
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
