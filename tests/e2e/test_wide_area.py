"""The commands of docs/wide-area.md work as they stand, in one shell with real agents."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.fleet import Fleet, eventually
from tests.e2e.live import now
from tests.e2e.programs.test_functions import run
from tests.patience import PATIENCE_S
from tests.ports import reserve

GUIDE = Path(__file__).parents[2] / "docs/wide-area.md"
BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
TOML = re.compile(r"```toml\n(.*?)```", re.DOTALL)
JOBS = 4
COUNTS = "CREATE JOB ops.{name} EVERY '1 s' AS SELECT host, count(*) AS n FROM log GROUP BY host"


UNTIL = "until {}; do sleep 0.2; done\n"
READY = UNTIL.format('[ "$(elf get agents -o csv --api {api} 2>/dev/null | grep -c alive)" = {count} ]')
"""A busy machine takes longer than the seconds for which the guide sleeps."""


@pytest.mark.slow
def test_the_commands_of_the_guide_start_three_regions_and_read_from_another_one(tmp_path: Path) -> None:
    blocks = BLOCK.findall(GUIDE.read_text())
    assert len(blocks) == 2
    script = "set -e\ntrap 'kill $(jobs -p); wait' EXIT\n" + "".join(blocks)
    used = sorted(set(re.findall(r"127\.0\.0\.1:(\d+)", script)))
    for pause, count in (("sleep 3\n", 1), ("sleep 5\n", 3)):
        assert script.count(pause) == 1
        script = script.replace(pause, READY.format(api="127.0.0.1:7410", count=count))
    for command, shown in (("elf plan ops/wide", "group us"), ("elf results ops/wide --last 3", "/eu")):
        (line,) = (each for each in script.splitlines() if each.startswith(command))
        until = UNTIL.format(f"{line} > shown && grep -q '{shown}' shown")
        script = script.replace(line, f"{until}cat shown")
    for port in used:
        script = script.replace(f"127.0.0.1:{port}", f"127.0.0.1:{reserve()}")
    folders = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=os.environ | {"PATH": folders},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for expected in ("PATHS 3 ACROSS region", "site 2 ", "group ap", "group eu", "group us", "/eu"):
        assert expected in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_a_host_whose_data_stays_in_its_region_takes_part_where_the_master_is_there(tmp_path: Path) -> None:
    """The rule of the guide, in agent.toml of one of two agents. One of them leads each job."""
    (rule,) = TOML.findall(GUIDE.read_text())
    (tmp_path / "agent.toml").write_text(rule)
    with Fleet(tmp_path / "fleet") as fleet:
        fleet.start(1, extra=["-c", str(tmp_path / "agent.toml")])
        fleet.start(1, extra=["--label", "region=us"])
        for number in range(JOBS):
            text = tmp_path / f"job{number}.elfql"
            text.write_text(COUNTS.format(name=f"job{number}"))
            applied = run("apply", "-f", str(text), "--api", fleet[1].api)
            shown = applied.stdout + applied.stderr
            assert applied.exit_code == 0, shown
            planned = run("plan", f"ops/job{number}", "-o", "json", "--api", fleet[1].api)
            notes = [each for each in json.loads(planned.stdout)["notes"] if "takes no part" in each]
            inside = fleet[1].get(f"/v1/jobs/ops/job{number}")["master"] == fleet[0].name
            excluded = f"{fleet[0].name} takes no part: its keep_in, region=eu, excludes the master"
            assert notes == ([] if inside else [excluded])
            assert (excluded in shown) == (not inside)
            members = 2 if inside else 1
            assert f"{members} of {members} agents have it" in shown
        for number in range(JOBS):
            inside = fleet[1].get(f"/v1/jobs/ops/job{number}")["master"] == fleet[0].name

            expected = {"eu", "us"} if inside else {"us"}

            def complete(number: int = number, expected: set[str] = expected) -> bool:
                for at, host in enumerate(("eu", "us")):
                    with fleet.log(at).open("a") as log:
                        log.write(json.dumps({"ts": now(), "host": host}) + "\n")
                results = fleet[1].results(f"ops/job{number}")
                return {row["host"] for record in results for row in record["rows"]} == expected

            eventually(complete, what=f"the rows of job {number}")
