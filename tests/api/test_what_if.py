"""What the results of jobs would be worth without some agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from elfmesh.api.fleet_jobs import FleetJobs
from elfmesh.api.what_if import (
    CHANGE_OF_MASTERS,
    NONE,
    ON_TIME,
    cases,
    domain_values,
    lost_agents,
    worth_without,
)
from elfmesh.errors import DataError, UsageError

AGENTS: list[dict[str, Any]] = [
    {
        "name": f"web{n}",
        "address": f"10.0.0.{n}:7400",
        "status": "alive",
        "labels": {"rack": f"r{(n + 1) // 2}", "zone": "a"},
    }
    for n in range(1, 7)
]
DEAD = [
    {name: value for name, value in each.items() if name != "labels"} | {"status": "dead"}
    if each["name"] == "web6"
    else each
    for each in AGENTS
]
TOP = "CREATE JOB shop.top EVERY '10 s' AS SELECT k, count(*) AS n FROM clicks GROUP BY k"
PAIRS = """CREATE JOB shop.pairs EVERY '10 s' AS
SELECT a.k, count(*) AS n FROM clicks a JOIN sales b ON a.k = b.k GROUP BY a.k"""
BEST = "CREATE JOB shop.best EVERY '30 s' AS SELECT k, max(n) AS n FROM shop.top GROUP BY k"
BOTH = """CREATE JOB shop.both EVERY '30 s' AS
SELECT a.k FROM shop.top a JOIN shop.pairs b ON a.k = b.k"""
BESIDE = """CREATE JOB shop.beside EVERY '10 s' AS
SELECT c.k, t.n FROM clicks c JOIN LATEST shop.top t ON c.k = t.k"""


def job(
    name: str,
    text: str,
    rates: Mapping[int, tuple[float, ...]],
    voters: tuple[int, ...] = (1, 3, 5),
    master: str = "web1",
    without: tuple[int, ...] = (),
) -> dict[str, Any]:
    members = [
        {"agent": f"web{n}", "number": n, "dead": False, "usual_records": list(records)}
        for n, records in rates.items()
    ]
    return {
        "job": name,
        "text": text,
        "master": master,
        "roster": {"agents": members},
        "voters": [f"10.0.0.{n}:7400" for n in voters],
        "voters_without_votes": [f"10.0.0.{n}:7400" for n in without],
    }


EVEN = dict.fromkeys(range(1, 7), (10.0,))
SKEWED = {1: (70.0,), 2: (10.0,), 3: (5.0,), 4: (5.0,), 5: (5.0,), 6: (5.0,)}
SIDES = {1: (10.0, 0.0), 2: (10.0, 0.0), 3: (0.0, 5.0), 4: (0.0, 5.0), 5: (20.0, 10.0)}


def worth(losses: list[str], *jobs: dict[str, Any], agents: list[dict[str, Any]] = AGENTS) -> list[Any]:
    return worth_without(agents, jobs, losses)


@pytest.mark.parametrize(
    ("rack", "rates", "fidelity"),
    [("r1", EVEN, 2 / 3), ("r1", SKEWED, 0.2), ("r2", SKEWED, 0.9)],
)
def test_a_rack_is_worth_the_records_of_its_agents(
    rack: str, rates: Mapping[int, tuple[float, ...]], fidelity: float
) -> None:
    (found,) = worth(lost_agents(AGENTS, [("rack", rack)]), job("shop/top", TOP, rates))
    assert found.fidelity == pytest.approx(fidelity)
    assert (found.at_least, found.at_most) == pytest.approx((fidelity, fidelity))
    assert (found.members, len(found.lost)) == (6, 2)


def test_a_join_has_a_product_and_bounds() -> None:
    (found,) = worth(["web1", "web3"], job("shop/pairs", PAIRS, SIDES))
    assert found.fidelity == pytest.approx(0.75 * 0.75)
    assert (found.at_least, found.at_most) == pytest.approx((0.5, 0.75))
    (found,) = worth(["web1", "web2", "web5"], job("shop/pairs", PAIRS, SIDES))
    assert found.fidelity == 0, "one input is lost whole"


def test_jobs_over_jobs_have_what_these_have() -> None:
    jobs = [
        job("shop/both", BOTH, {}),
        job("shop/best", BEST, {}),
        job("shop/beside", BESIDE, {n: (0.0, *EVEN[n]) for n in EVEN}),
        job("shop/top", TOP, SKEWED),
        job("shop/pairs", PAIRS, SIDES),
    ]
    found = {each.job: each for each in worth(["web1"], *jobs)}
    assert found["shop/top"].fidelity == pytest.approx(0.3)
    assert found["shop/pairs"].fidelity == pytest.approx(0.75)
    assert found["shop/best"].fidelity == pytest.approx(0.3)
    assert found["shop/both"].fidelity == pytest.approx(0.3 * 0.75)
    assert found["shop/beside"].fidelity == pytest.approx(5 / 6 * 0.3)
    assert found["shop/beside"].at_least <= found["shop/beside"].fidelity <= found["shop/beside"].at_most


@pytest.mark.parametrize(
    ("voters", "lost", "without", "left", "result"),
    [
        ((1, 3, 5), ["web2"], (), 3, ON_TIME),
        ((1, 3, 5), ["web1"], (), 2, CHANGE_OF_MASTERS),
        ((1, 2, 5), ["web1", "web2"], (), 1, NONE),
        ((2, 3, 5), ["web2"], (3,), 1, NONE),
        ((6, 2, 3), ["web2"], (), 1, NONE),  # web6 is dead already
    ],
)
def test_a_job_needs_a_majority_of_its_voters(
    voters: tuple[int, ...], lost: list[str], without: tuple[int, ...], left: int, result: str
) -> None:
    (found,) = worth(lost, job("shop/top", TOP, EVEN, voters, without=without), agents=DEAD)
    assert (found.voters, found.voters_left, found.next_result) == (3, left, result)
    assert "web6" in found.lost


@pytest.mark.parametrize(
    ("clauses", "lost", "late_s"),
    [
        ("DEADLINE '2 s'", ["web2"], 2 + 1 + 1.5),
        ("DEADLINE '2 s'", ["web1", "web2"], 5 + 2 + 1 + 1.5),
        ("DEADLINE '2 s' HORIZON '9 s'", ["web2"], 2 + 9 + 1.5),
        ("DEADLINE '2 s' ON STRAGGLER SKIP", ["web2"], 2 + 1.5),
        ("DEADLINE '2 s' REPLICAS 1", ["web2"], 2 + 1 + 1.5 + 1),
        ("DEADLINE '2 s' STANDBY ALL", ["web2"], 2 + 1 + 1.5 + 1),
    ],
)
def test_the_greatest_delay_follows_from_the_clauses(clauses: str, lost: list[str], late_s: float) -> None:
    text = TOP.replace("EVERY", f"{clauses} EVERY")
    (found,) = worth(lost, job("shop/top", text, EVEN, (1, 3, 5)), agents=DEAD)
    assert found.late_seconds == late_s


def test_the_loss_of_an_agent_that_is_no_member_delays_nothing() -> None:
    (found,) = worth(["web2"], job("shop/top", TOP, {1: (5.0,), 3: (5.0,)}))
    assert (found.late_seconds, found.next_result) == (0.0, ON_TIME)


def test_the_delay_of_a_job_has_that_of_the_job_that_it_reads() -> None:
    jobs = [job("shop/best", BEST, {}, master="web5"), job("shop/top", TOP, EVEN, (1, 3, 5))]
    found = {each.job: each.late_seconds for each in worth(["web1"], *jobs)}
    assert found["shop/best"] == found["shop/top"] == 5 + 1 + 1 + 1.5


def test_a_job_waits_with_the_job_that_it_reads() -> None:
    jobs = [job("shop/best", BEST, {}, voters=(4, 5, 6)), job("shop/top", TOP, EVEN, voters=(1, 2, 3))]
    found = worth(["web1", "web2"], *jobs)
    assert [each.next_result for each in found] == [NONE, NONE]


def test_nothing_remains_without_agents() -> None:
    (found,) = worth([each["name"] for each in AGENTS], job("shop/top", TOP, EVEN))
    assert (found.fidelity, found.next_result) == (0.0, NONE)


def test_domains_are_labels_and_agents() -> None:
    assert domain_values(AGENTS, "rack") == ["r1", "r2", "r3"]
    assert lost_agents(AGENTS, [("agent", "web4"), ("rack", "r1")]) == ["web1", "web2", "web4"]
    with pytest.raises(DataError, match="no agent has the label 'rak'") as refused:
        domain_values(AGENTS, "rak")
    assert "rack" in refused.value.hint
    with pytest.raises(DataError, match="no agent has rack=r9") as refused:
        lost_agents(AGENTS, [("rack", "r9")])
    assert refused.value.exit_code == 65
    assert "r1" in refused.value.hint


def test_a_job_without_a_master_hides_no_other() -> None:
    top, best = job("shop/top", TOP, EVEN), job("shop/best", BEST, {})
    jobs = FleetJobs({"shop/best": best}, {"shop/top": "no majority"})
    (case,) = cases(AGENTS, jobs, ["rack=r2"])
    assert (case.stopped, [each.job for each in case.jobs]) == (["shop/best", "shop/top"], ["shop/best"])
    assert case.as_json()["jobs"][-1] == {"job": "shop/top", "next_result": NONE, "error": "no majority"}
    both = FleetJobs({"shop/top": top, "shop/best": best})
    (case,) = cases(AGENTS, both, ["rack=r2"], job="shop.top")
    assert (case.stopped, [each.job for each in case.jobs]) == ([], ["shop/top"])


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({}, UsageError, "what is lost?"),
        ({"losses": ["rack=r1"], "label": "rack"}, UsageError, "what is lost?"),
        ({"losses": ["rack"]}, UsageError, "write LABEL=VALUE"),
        ({"label": "rack", "job": "a b"}, UsageError, "is not the name of a job"),
        ({"label": "rack", "job": "shop/tap"}, DataError, "there is no job shop/tap"),
    ],
)
def test_wrong_cases(given: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        cases(AGENTS, FleetJobs({"shop/top": job("shop/top", TOP, EVEN)}), **given)


def test_a_number_of_a_member_of_any_size_costs_nothing() -> None:
    huge = job("shop/top", TOP, EVEN)
    for each in huge["roster"]["agents"]:
        each["number"] += 1 << 62
    assert worth(["web1", "web2"], huge) == worth(["web1", "web2"], job("shop/top", TOP, EVEN))
