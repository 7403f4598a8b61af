"""A process that is killed for good in the middle of a window: a peer has what it had read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.fleet import Fleet, eventually
from tests.e2e.live import by_index
from tests.e2e.zygote import elf

JOB = "e2e/top"
TEXT = """CREATE JOB e2e.top EVERY '10 s' DEADLINE '1 s' HORIZON '20 s' STANDBY ALL LAG '100 ms' AS
SELECT k, count(*) AS n FROM log GROUP BY k ORDER BY k"""
LINES = 30


def write(fleet: Fleet, number: int, second: int) -> None:
    with fleet.log(number).open("a") as file:
        line = f'{{"ts": "2015-05-17T10:05:{second:02}.500Z", "k": "web{number}"}}\n'
        file.write(line * LINES)


def test_what_a_killed_agent_had_read_is_in_the_record(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        for number in range(4):
            fleet.start(1, options=",format=json,idle=1 h", extra=["--label", f"rack=r{number % 2}"])
        fleet.apply(TEXT)
        for number in range(4):
            write(fleet, number, 1)
            write(fleet, number, 11)
        first = eventually(lambda: fleet[0].results(JOB), what="the first interval")[0]
        index = first["interval"]["index"] + 1

        def standbys() -> dict[str, str]:
            members = fleet[0].get(f"/v1/jobs/{JOB}")["roster"]["agents"]
            return (
                found
                if len(
                    found := {each["agent"]: each.get("standby") for each in members if each.get("standby")}
                )
                == 4
                else {}
            )

        found = eventually(standbys, what="a standby of each member")
        described = fleet[0].get(f"/v1/jobs/{JOB}")
        number = next(at for at in range(4) if fleet[at].name != described["master"])
        done = elf("what-if", "--lose", f"agent={fleet[number].name}", "-o", "json", "--api", fleet[0].api)
        (predicted,) = json.loads(done.stdout)["jobs"]
        assert (predicted["kept"], predicted["lost"]) == (1.0, [fleet[number].name])
        racks = {fleet[at].name: at % 2 for at in range(4)}
        assert all(racks[member] != racks[standby] for member, standby in found.items())
        write(fleet, number, 12)

        def shipped() -> bool:
            """Whether the standby holds what was written last: the killed agent's chain has a delta more."""
            stats: dict[str, Any] = fleet[number].get("/v1/agent")["control_stats"]
            return bool(stats["control.shipped_bytes"] > before)

        before = fleet[number].get("/v1/agent")["control_stats"]["control.shipped_bytes"]
        write(fleet, number, 13)
        eventually(shipped, what="a delta")
        fleet[number].kill()
        left = [fleet[at] for at in range(4) if at != number]
        for agent in left:
            write(fleet, agent.number, 21)

        def closed() -> Any:
            return by_index(left[0].results(JOB)).get(index)

        record = eventually(closed, what="the interval without the agent")
        assert (record["state"], record["agents"]["missing"]) == ("FINAL_PARTIAL", [fleet[number].name])
        (partly,) = record["agents"]["partly"]
        assert partly["agent"] == fleet[number].name
        assert partly["records"] >= 2 * LINES
        rows = {row["k"]: row["n"] for row in record["rows"]}
        assert rows.pop(f"web{number}") == partly["records"]
        assert rows == {f"web{agent.number}": LINES for agent in left}
        verified = elf("verify", JOB, "--interval", str(index), "-o", "json", "--api", left[0].api)
        assert json.loads(verified.stdout)["state"] == "incomplete"
