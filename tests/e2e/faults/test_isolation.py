"""On a real agent: while a function hangs for all of its time, the other job goes on closing intervals."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.fleet import Fleet, eventually
from tests.e2e.live import Traffic
from tests.e2e.programs.test_functions import CLUSTER, PLAIN, Site, run

LIMIT_S = 240
"""Far more than two intervals of a second take on a busy machine."""


def test_an_ordinary_job_goes_on_while_a_function_hangs(tmp_path: Path) -> None:
    keys = [run("key", "create", str(tmp_path / f"{key}.pem")).stdout.strip() for key in "ab"]
    config = tmp_path / "agent.toml"
    config.write_text(
        f"[functions]\npython = 'signed'\nkeys = {json.dumps(keys)}\nsignatures = 2\ntime = '{LIMIT_S} s'\n"
    )
    with Fleet(tmp_path / "fleet") as fleet:
        fleet.start(1, extra=["-c", str(config), "--cluster", CLUSTER])
        with Traffic(fleet, [0], every_s=0.02) as traffic:
            site, agent = Site(tmp_path, fleet, traffic), fleet[0]
            plain = tmp_path / "plain.elfql"
            plain.write_text(PLAIN)
            assert site.apply(plain).exit_code == 0
            eventually(lambda: agent.results("fn/plain"), what="results")
            hang = site.signed(site.job("hang", "while v is not None: pass", on=""), 1)
            assert site.apply(hang).exit_code == 0
            eventually(lambda: site.workers(agent), what="its process")
            newest = agent.results("fn/plain")[-1]["interval"]["index"]

            def went_on() -> bool:
                return bool(agent.results("fn/plain")[-1]["interval"]["index"] >= newest + 3)

            eventually(went_on, LIMIT_S / 2, "three more intervals")
            assert not agent.results("fn/hang")
            assert not site.describe("fn/hang")["errors"], "its first block still hangs"
