"""Three jobs over three regions, real processes: PATHS changes, a site leaves, a region is killed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.fleet import Agent, Fleet, eventually
from tests.e2e.live import Traffic, by_index, oracle
from tests.e2e.test_agents import verify
from tests.e2e.zygote import elf

REGIONS = ("ap", "eu", "us")
HITS = """CREATE JOB wide.hits HORIZON '20 s' PATHS 3 ACROSS region AS SELECT k, count(*) AS n FROM log
GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k ORDER BY k"""
SUMS = """CREATE JOB wide.sums HORIZON '20 s' PATHS 2 ACROSS region AS SELECT k, sum(v) AS s FROM log
GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k ORDER BY k"""
BOTH = """CREATE JOB wide.both EVERY '1 s' AS SELECT h.k, sum(h.n) AS n, sum(s.s) AS s
FROM wide.hits h JOIN wide.sums s ON h.k = s.k GROUP BY h.k ORDER BY h.k"""
ONE = """CREATE JOB wide.both AS SELECT k, count(*) AS n, sum(v) AS s FROM log
GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k ORDER BY k"""
"""What all three amount to over the logs."""

COLUMNS = {"wide/hits": ("k", "n"), "wide/sums": ("k", "s"), "wide/both": ("k", "n", "s")}
SITES = {"PATHS 1 ACROSS region": (1, 3), "": (0, 0), "PATHS 3, 2 ACROSS region COST 6": (3, 3)}
"""Clauses, with the sites and groups that they give hits."""


def newest(agent: Agent, job: str) -> int:
    found = eventually(lambda: agent.results(job), what=f"results of {job}")
    index: int = found[-1]["interval"]["index"]
    return index


def later(agent: Agent, job: str, count: int) -> list[dict[str, Any]]:
    """The next records of a job, at an agent."""
    since = newest(agent, job)
    eventually(lambda: newest(agent, job) >= since + count, what=f"{count} more intervals of {job}")
    return [each for each in agent.results(job) if each["interval"]["index"] > since]


def layout(agent: Agent, job: str) -> dict[str, Any]:
    found = agent.get(f"/v1/jobs/{job}/plan")
    return dict(found["layout"] or {"sites": [], "groups": []})


def spread_region(asked: Agent) -> str:
    """A region without which each job has most of its voters, which spread over the regions; "": none yet."""
    domains = [asked.get(f"/v1/jobs/{job}")["voter_domains"] for job in COLUMNS]
    return next((each for each in REGIONS if all(found.count(each) < 2 for found in domains)), "")


@pytest.mark.slow
def test_three_jobs_over_three_regions_outlive_changes_a_site_and_a_region(tmp_path: Path) -> None:
    with Fleet(tmp_path / "fleet") as fleet:
        for number in range(6):
            fleet.start(1, extra=["--label", f"region={REGIONS[number % 3]}"])
        with Traffic(fleet, list(range(6)), every_s=0.05) as traffic:
            for text, members in ((HITS, 6), (SUMS, 6), (BOTH, 0)):
                fleet.apply(text, 0, members)
            for agent, job in zip(list(fleet)[:3], ("hits", "sums", "both"), strict=True):
                later(agent, f"wide/{job}", 2)
            assert {each["domain"] for each in layout(fleet[1], "wide/hits")["sites"]} == set(REGIONS)
            begun = newest(fleet[1], "wide/hits") + 1

            for paths, sizes in SITES.items():
                changed = fleet[2].apply(HITS.replace("PATHS 3 ACROSS region", paths))
                assert changed["state"] == "keep"
                later(fleet[1], "wide/hits", 2)
                shown = layout(fleet[1], "wide/hits")
                assert (len(shown["sites"]), len(shown["groups"])) == sizes, paths

            _, *others = [each["agent"] for each in layout(fleet[0], "wide/hits")["sites"]]
            leaver = next(each for each in fleet if each.name in others)
            reported = elf("leave", "--api", leaver.api)
            assert (reported.returncode, reported.stderr) == (0, "")
            traffic.numbers.remove(leaver.number)
            stays = next(each for each in fleet if each is not leaver)
            assert {each["state"] for each in later(stays, "wide/hits", 3)} == {"FINAL"}
            last = newest(stays, "wide/hits")
            assert verify(stays, "wide/hits", last) == (0, "equal")
            whole = [each for each in stays.results("wide/hits", begun) if each["interval"]["index"] <= last]
            assert {(each["state"], each["completeness"]) for each in whole} == {("FINAL", 1.0)}
            assert [each["interval"]["index"] for each in whole] == list(range(begun, last + 1)), "no gap"

            region = eventually(lambda: spread_region(stays), what="voters in different regions")
            killed = [each for each in fleet if REGIONS[each.number % 3] == region and each is not leaver]
            for agent in killed:
                agent.kill()
            asked = next(each for each in fleet if each not in (*killed, leaver))
            since = time.time()
            for job in COLUMNS:
                assert {*later(asked, job, 3)[-1]["agents"]["missing"]} <= {each.name for each in killed}
            print(f"three more results of each job, {time.time() - since:.1f} s after a region was killed")
        logs = []
        for number, lines in traffic.written.items():
            logs.append(tmp_path / f"written-{number}.log")
            logs[-1].write_text("".join(line + "\n" for line in lines))
        one = oracle(logs, ONE)
        for job, names in COLUMNS.items():
            found = by_index(asked.results(job))
            expects = {at: each["agents"]["expected"] for at, each in found.items()}
            checked = [at for at, size in expects.items() if begun <= at < last - 5 and size in (0, 6)]
            assert checked, job
            for at in checked:
                assert found[at]["state"] == "FINAL"
                expected = [{name: row[name] for name in names} for row in one[at]["rows"]]
                assert found[at]["rows"] == expected, (job, at)
