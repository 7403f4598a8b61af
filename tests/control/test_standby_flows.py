"""A host that never returns, told by whole agents on virtual time: what its records are worth."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from elfmesh.control.jobs.records import ResultRecord
from tests.sim.test_stories import master, traffic
from tests.sim.world import vloop
from tests.sim.world.agents import SimFleet, line, until, wall_us

WINDOW_S, RATE = 60, 4
JOB = "CREATE JOB sim.n DEADLINE '2 s' {} AS SELECT k, count(*) AS n FROM log GROUP BY {}, k"
TUMBLE = f"TUMBLE(ts, INTERVAL '{WINDOW_S}' SECOND)"
HOP = f"HOP(ts, INTERVAL '10' SECOND, INTERVAL '{WINDOW_S}' SECOND)"


async def killed(
    clause: str, window: str = TUMBLE, *, back_after_s: float | None = None
) -> tuple[list[tuple[ResultRecord, list[dict[str, Any]]]], str, int]:
    """The records of the windows in which a host was killed, its name, and how many lines it had written."""
    fleet = SimFleet(7, 5)
    await fleet.start()
    await fleet.apply(JOB.format(clause, window))
    await traffic(fleet, 5.0)
    until_s = (wall_us() // 1_000_000 // WINDOW_S + 1) * WINDOW_S - wall_us() / 1e6
    await traffic(fleet, until_s + WINDOW_S / 2)
    local = master(fleet).local
    assert local is not None
    (leading,) = local.control.leadership.masters.values()
    spared = {contact.id for contact in leading.term.terms.acceptors} | {master(fleet).id}
    down = next(agent for agent in fleet.agents if agent.id not in spared)
    at_us, begin = wall_us(), wall_us() // 1_000_000 // WINDOW_S * WINDOW_S
    written = bytes(down.log.data).count(b"\n")
    down.crash()
    if back_after_s is not None:
        await traffic(fleet, back_after_s)
        await down.start(fleet.seeds(down))
    await traffic(fleet, begin + WINDOW_S - wall_us() / 1e6 + 20)

    async def closed() -> list[tuple[ResultRecord, list[dict[str, Any]]]]:
        records = await fleet.results("sim/n", master(fleet).number)
        found = [each for each in records if (each[0].end_us or 0) > at_us >= (each[0].start_us or 0)]
        return found if found and (found[-1][0].end_us or 0) >= (begin + WINDOW_S) * 1_000_000 else []

    found = await until(closed, 60)
    fleet.check()
    return found, down.name, written


def test_a_host_that_never_returns_costs_a_second_of_its_records() -> None:
    ((record, rows),), down, _ = vloop.run(killed("STANDBY ALL"))
    assert (record.state, record.missing, record.agents_in) == ("FINAL_PARTIAL", [down], 4)
    (prefix,) = record.partly
    assert prefix.agent == down
    assert WINDOW_S / 2 * RATE - prefix.contributed <= 2 * RATE, "LAG, one poll and one round trip"
    assert record.counts["contributed"] == sum(row["n"] for row in rows)
    share = (4 * WINDOW_S * RATE + prefix.contributed) / (5 * WINDOW_S * RATE)
    assert record.fidelity == pytest.approx(share, abs=0.03)
    assert record.completeness == 4 / 5


def test_without_a_standby_all_of_its_open_window_is_lost() -> None:
    ((record, _),), down, _ = vloop.run(killed("REPLICAS 1"))
    assert (record.missing, record.partly) == ([down], ())


@pytest.mark.exhaustive
def test_every_later_window_that_a_pane_belongs_to_has_the_prefix() -> None:
    found, down, _ = vloop.run(killed("STANDBY ALL LAG '100 ms'", HOP))
    assert len(found) >= 4
    for record, _ in found:
        assert [each.agent for each in record.partly] == [down]
    contributed = [record.partly[0].contributed for record, _ in found]
    assert contributed == sorted(contributed, reverse=True), "later windows have fewer of its panes"


def test_a_host_that_returns_before_the_close_takes_the_place_of_its_prefix() -> None:
    ((record, rows),), _, _ = vloop.run(killed("STANDBY ALL", back_after_s=10.0))
    assert (record.state, record.partly, record.completeness) == ("FINAL", (), 1.0)
    assert sum(row["n"] for row in rows) == record.counts["contributed"]


LONG_S = 5.0
"""A DEADLINE that no record with all living members and a prefix of each dead one waits for."""


async def first_shown(clause: str) -> tuple[ResultRecord, float]:
    """The first tentative record of a window in which a host died, and the seconds from its end to it."""
    fleet = SimFleet(7, 5)
    await fleet.start()
    text = JOB.format(f"HORIZON '60 s' {clause}", "TUMBLE(ts, INTERVAL '20' SECOND)")
    await fleet.apply(text.replace("DEADLINE '2 s'", f"DEADLINE '{LONG_S} s'"))
    await traffic(fleet, 30.0 - wall_us() / 1e6 % 20)
    local = master(fleet).local
    assert local is not None
    (leading,) = local.control.leadership.masters.values()
    spared = {contact.id for contact in leading.term.terms.acceptors} | {master(fleet).id}
    next(agent for agent in fleet.agents if agent.id not in spared).crash()
    index = wall_us() // 20_000_000
    end_us, tentative = (index + 1) * 20_000_000, leading.term.closer.tentative
    writing = asyncio.create_task(traffic(fleet, 10.0 + LONG_S + 5.0))

    async def shown() -> list[ResultRecord]:
        return [record for record, _ in tentative.since(0) if record.index == index]

    found = await until(shown, 60, every_s=0.01)
    took_s = (wall_us() - end_us) / 1e6
    await writing
    fleet.check()
    return found[0], took_s


def test_a_record_with_all_that_standbys_hold_of_the_dead_does_not_wait_for_the_deadline() -> None:
    record, took_s = vloop.run(first_shown("STANDBY ALL"))
    assert (record.state, record.agents_in, record.missing) == (
        "TENTATIVE",
        4,
        [each.agent for each in record.partly],
    )
    assert took_s < 2.0


def test_a_record_without_a_prefix_of_each_dead_host_waits_for_the_deadline() -> None:
    record, took_s = vloop.run(first_shown("REPLICAS 1"))
    assert (record.state, record.agents_in, record.partly) == ("TENTATIVE", 4, ())
    assert took_s >= LONG_S


async def late_return() -> tuple[int, int]:
    """A host returns after the close: all its lines, and what all records count."""
    fleet = SimFleet(9, 5)
    await fleet.start()
    await fleet.apply(JOB.format("HORIZON '1 s' STANDBY ALL", "TUMBLE(ts, INTERVAL '10' SECOND)"))
    await traffic(fleet, 15.0)
    local = master(fleet).local
    assert local is not None
    (leading,) = local.control.leadership.masters.values()
    spared = {contact.id for contact in leading.term.terms.acceptors} | {master(fleet).id}
    down = next(agent for agent in fleet.agents if agent.id not in spared)
    down.crash()
    await traffic(fleet, 25.0)
    await down.start(fleet.seeds(down))
    await traffic(fleet, 40.0)
    last = wall_us() // 10_000_000
    for agent in fleet.agents:
        agent.log.write(line(wall_us() + 20_000_000, "end", 1))

    async def closed() -> list[tuple[ResultRecord, list[dict[str, Any]]]]:
        records = await fleet.results("sim/n", master(fleet).number)
        return records if records and records[-1][0].index >= last else []

    records = [record for record, _ in await until(closed, 60) if record.index <= last]
    await asyncio.sleep(1.0)
    fleet.check()
    assert any(record.partly for record in records)
    counted = sum(sum(record.counts.values()) for record in records)
    written = sum(bytes(agent.log.data).count(b"\n") for agent in fleet.agents) - len(fleet.agents)
    return written, counted


def test_what_is_inside_in_a_prefix_is_not_counted_again_when_its_host_returns() -> None:
    written, counted = vloop.run(late_return())
    assert counted == written


async def budgeted() -> tuple[dict[str, Any], dict[str, Any], str, list[ResultRecord]]:
    """One standby for six hosts in three regions, of which one has most records; the master dies, then that.

    Returns what `plan` answers before and after the first death, the host, and the records after its death.
    """
    fleet = SimFleet(7, 6, regions=("eu", "us", "ap"))
    await fleet.start()
    clause = "REPLICAS 1 STANDBY 1 ACROSS region LAG '100 ms'"
    await fleet.apply(JOB.format(clause, "TUMBLE(ts, INTERVAL '5' SECOND)"))
    leader = master(fleet)
    assert leader.local is not None
    (leading,) = leader.local.control.leadership.masters.values()
    spared = {contact.id for contact in leading.term.terms.acceptors} | {leader.id}
    heavy = next(agent for agent in fleet.agents if agent.id not in spared)

    async def write(seconds: float) -> None:
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end:
            if heavy.local is not None:
                heavy.log.write(line(wall_us(), "a", 1), line(wall_us(), "b", 1))
            await traffic(fleet, 0.25)

    async def planned() -> dict[str, Any]:
        body = (await master(fleet).ask("plan", {"job": "sim/n"})).body
        found: dict[str, Any] = msgspec.to_builtins(body)
        return found["standbys"] if found["standbys"]["members"][0]["standby"] else {}

    await write(50.0)
    before = await until(planned, 60)
    leader.crash()
    await write(25.0)
    after = await until(planned, 60)
    at_us = wall_us()
    heavy.crash()
    await write(25.0)

    async def closed() -> list[ResultRecord]:
        records = [record for record, _ in await fleet.results("sim/n", master(fleet).number)]
        return [each for each in records if (each.end_us or 0) > at_us >= (each.start_us or 0)]

    return before, after, heavy.name, await until(closed, 60)


def test_the_standby_of_a_budget_of_one_goes_to_the_host_whose_region_would_cost_most() -> None:
    before, after, heavy, records = vloop.run(budgeted())
    assert [each["agent"] for each in before["members"]] == [heavy]
    assert min(before["kept"].values()) > min(before["without"].values()) + 0.1
    assert [each["agent"] for each in after["members"]] == [heavy], "the next master inherits the plan"
    assert [each.agent for each in records[0].partly] == [heavy]


async def planned_within(rate: str) -> dict[str, Any]:
    """The standbys that a fleet of six has after a while, if they may ship `rate` together."""
    fleet = SimFleet(7, 6)
    await fleet.start()
    await fleet.apply(JOB.format(f"STANDBY '{rate}' LAG '100 ms'", "TUMBLE(ts, INTERVAL '5' SECOND)"))
    await traffic(fleet, 120.0)
    body = (await master(fleet).ask("plan", {"job": "sim/n"})).body
    fleet.check()
    found: dict[str, Any] = msgspec.to_builtins(body)["standbys"]
    return found


@pytest.mark.exhaustive
def test_members_ship_no_more_bytes_per_second_than_the_budget_states() -> None:
    whole = vloop.run(planned_within("1 MB/s"))
    assert len(whole["members"]) == 6
    assert whole["bytes_per_second"] > 0
    half = max(1, whole["bytes_per_second"] // 2)
    part = vloop.run(planned_within(f"{half} B/s"))
    assert 1 <= len(part["members"]) < 6
    assert 0 < part["bytes_per_second"] <= half
    assert part["budget"] == f"'{half} B/s'"
