"""What `elf what-if` predicts for a rack is what happens when the rack is killed a moment later."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from elfmesh.api.what_if import ON_TIME
from tests.e2e.fleet import Fleet, eventually
from tests.e2e.live import by_index
from tests.e2e.zygote import elf
from tests.exhaustive import few

JOB = "e2e/top"
TEXT = """CREATE JOB e2e.top EVERY '10 s' DEADLINE '1 s' HORIZON '20 s' AS
SELECT k, count(*) AS n FROM log GROUP BY k ORDER BY n DESC, k LIMIT 10"""
RACKS = ("r0", "r1", "r2")


def write(fleet: Fleet, number: int, minute: int, second: int, counts: dict[str, int]) -> None:
    stamp = f"2015-05-17T10:{minute:02}:{second:02}.500Z"
    with fleet.log(number).open("a") as file:
        for key, count in counts.items():
            file.write(f'{{"ts": "{stamp}", "k": "{key}"}}\n' * count)


def drawn(seed: int) -> list[dict[str, int]]:
    """What each agent writes in each interval: a key of its rack, and one of all."""
    dice = random.Random(seed)
    return [{RACKS[at // 2]: dice.randint(2, 20), "all": dice.randint(5, 60)} for at in range(6)]


def cases(fleet: Fleet, *options: str) -> list[dict[str, Any]]:
    done = elf("what-if", "--each", "rack", "-o", "json", *options, "--api", fleet[0].api)
    assert done.returncode in (0, 1), done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("seed", few(range(3), 1))
def test_the_prediction_is_what_happens(seed: int, tmp_path: Path) -> None:
    usual = drawn(seed)
    with Fleet(tmp_path) as fleet:
        for rack in RACKS:
            fleet.start(2, options=",format=json,idle=1 h", extra=["--label", f"rack={rack}"])
        fleet.apply(TEXT)
        for number in range(6):
            write(fleet, number, 5, 1, usual[number])
            write(fleet, number, 5, 11, usual[number])
        first = eventually(lambda: fleet[0].results(JOB), what="the first interval")[0]
        index = first["interval"]["index"]
        assert (first["state"], first["fidelity"]) == ("FINAL", 1.0)
        (measured,) = cases(fleet, "--job", JOB, "--interval", str(index))
        assert (measured["state"], measured["rows"]) == ("measured", 4)
        shares = {case["lost"]: case["fidelity"] for case in measured["cases"]}

        def known() -> dict[str, dict[str, Any]]:
            """What is predicted once the master knows the rates of all members."""
            found = {case["lost"]: case["jobs"][0] for case in cases(fleet)}
            stated = {name.partition("=")[2]: each["fidelity"] for name, each in found.items()}
            return found if stated == pytest.approx(shares, abs=0.02) else {}

        predicted = eventually(known, what="the rates of all members")
        # A new master knows no rates yet, so that its members count the same.
        lost = next(rack for rack in RACKS[::-1] if predicted[f"rack={rack}"]["next_result"] == ON_TIME)
        killed = [number for number in range(6) if RACKS[number // 2] == lost]
        left = [fleet[number] for number in range(6) if number not in killed]
        for number in killed:
            fleet[number].kill()
        for agent in left:
            write(fleet, agent.number, 5, 21, usual[agent.number])

        def closed() -> Any:
            return by_index(left[0].results(JOB)).get(index + 1)

        second = eventually(closed, what="the interval without the rack")
        assert second["state"] == "FINAL_PARTIAL"
        assert sorted(second["agents"]["missing"]) == [fleet[number].name for number in killed]
        (case,) = (each for each in measured["cases"] if each["lost"] == lost)
        for stated in (case["fidelity"], case["records"], predicted[f"rack={lost}"]["fidelity"]):
            assert second["fidelity"] == pytest.approx(stated, abs=0.02)
        whole, some = (Counter({row["k"]: row["n"] for row in each["rows"]}) for each in (first, second))
        assert case["stay"] == len(whole.keys() & some.keys())
        assert [row["k"] for row in case["gone"]] == [key for key in whole if key not in some] == [lost]
        off = sum(abs(whole[key] - some[key]) for key in whole) / whole.total()
        assert case["error"] == pytest.approx(off, abs=1e-3)
