"""Jobs with SEALED: open partitions outlive masters, and end in the interval of the last seal."""

from __future__ import annotations

import random
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pytest

from elfmesh import ql
from elfmesh.agent.runtime.compute_threads import made_in_turn
from elfmesh.control.closing.open_groups import OpenGroups
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.member import member_host
from elfmesh.control.member.member_host import MemberHost
from elfmesh.control.protocol import events as ctl
from elfmesh.control.register.proposer import Proposer
from elfmesh.errors import QueryError
from elfmesh.ingest.worker.early_partitions import SealedWindows
from elfmesh.ingest.worker.insertion import batches_of
from elfmesh.ql.engine import open_groups
from tests.control import harness
from tests.control.clicks import BASE, SLIDE
from tests.control.harness import World
from tests.control.member.support import ENDS, SEALED, SESSIONS, TEXT, Agent
from tests.control.succession import led_by_a_successor
from tests.ql.sealing import Ended, Line, oracle

JOB = "ads/ends"
HOUR = 3600 * 1_000_000
TOPIC = "CREATE TOPIC ads.posts FROM clicks DELIVERY SEQUENCED EVERY '1 s'"


def feed(agent: Agent, *records: tuple[float, str]) -> None:
    """Records so many slides behind the first interval; a key with `!` is a punctuation."""
    agent.feed("clicks", [(BASE + int(at * SLIDE), key) for at, key in records])


def rows_of(world: World) -> dict[int, list[tuple[Any, ...]]]:
    results = world.results(world.living[0], JOB)
    return {record.index: [(row["k"], row["hits"]) for row in rows] for record, rows in results if rows}


def wanted(agents: list[Agent], how: str) -> dict[int, list[tuple[Any, ...]]]:
    """By the oracle of intervals, whose width is not that of the job."""
    scale = SLIDE // 1_000_000
    lines = {
        agent.me.id.hex(): [
            Line(at // scale, key.removesuffix(ENDS), ends=key.endswith(ENDS))
            for at, key in agent.logs.get("clicks", [])
        ]
        for agent in agents
    }
    found: dict[int, Ended] = oracle(lines, how=how, after=HOUR // scale)
    return {index: [(key, hits) for key, _, hits in each.rows] for index, each in found.items() if each.rows}


def traffic(agents: list[Agent], seed: int, last: int) -> None:
    """Records of some keys, and the seals of all agents at different times."""
    rng = random.Random(seed)
    for key in "abcdef":
        ends = [rng.uniform(1, last) for _ in agents]
        for agent, end in zip(agents, ends, strict=True):
            feed(agent, *((rng.uniform(0, end), key) for _ in range(rng.randrange(1, 5))), (end, key + ENDS))
            if rng.random() < 0.3:
                feed(agent, (rng.uniform(end, last), key + ENDS))


def test_a_partition_ends_with_the_last_seal_of_all_members_and_repeated_seals_count_once() -> None:
    world = World(3)
    world.apply(world[0], SEALED)
    feed(world[0], (0.1, "a"), (0.5, "a!"), (1.5, "a!"), (2.5, "a!"))
    feed(world[1], (1.2, "a"), (1.7, "a!"))
    feed(world[2], (4.2, "a!"))
    world.seal_all(BASE + 8 * SLIDE)
    world.run(3.0)
    records = world.results(world[0], JOB)
    assert [record.index for record, _ in records] == [1000, 1001, 1002, 1004], "none without records"
    assert rows_of(world) == {1004: [("a", 2)]} == wanted(world.living, "ALL")
    assert all(record.state == "FINAL" for record, _ in records)
    assert all(not record.open for _, log in world[1].results.values() for record, _ in log)


def test_records_of_an_ended_partition_are_late() -> None:
    world = World(3)
    world.apply(world[0], SEALED.replace("ALL", "ONE"))
    feed(world[0], (0.1, "a"), (0.5, "a!"), (1.5, "a"), (1.6, "b"))
    world.seal_all(BASE + 3 * SLIDE)
    world.run(3.0)
    counts = {record.index: record.counts for record, _ in world.results(world[0], JOB)}
    assert [(counts[at]["contributed"], counts[at]["late_dropped"]) for at in (1000, 1001)] == [
        (2, 0),
        (1, 1),
    ]


def heir_of(seed: int) -> tuple[dict[int, list[tuple[Any, ...]]], dict[int, list[tuple[Any, ...]]]]:
    """Rows of a job whose master dies while partitions are open: those that are, and those that shall be."""

    def write(agents: list[Agent], rng: random.Random) -> None:
        for key in "abcdef":
            feed(rng.choice(agents), *((rng.uniform(0, 4), key) for _ in range(3)))
            feed(rng.choice(agents), (rng.uniform(5, 15), key + ENDS))

    world, stay = led_by_a_successor(SEALED.replace("ALL", "ONE"), JOB, seed, write)
    return rows_of(world), wanted(stay, "ONE")


@pytest.mark.parametrize("seed", range(4))
def test_a_successor_goes_on_with_the_open_partitions(seed: int) -> None:
    are, shall_be = heir_of(seed)
    assert are == shall_be


def test_a_successor_that_did_not_find_them_would_lose_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ablation of the test before."""
    monkeypatch.setattr(OpenGroups, "restore", lambda self, tail: None)
    outcomes = [heir_of(seed) for seed in range(4)]
    assert any(are != shall_be for are, shall_be in outcomes)


@pytest.mark.parametrize("seed", range(3))
def test_all_members_seal_in_any_order(seed: int) -> None:
    world = World(4)
    world.apply(world[0], SEALED)
    traffic(world.living, seed, 8)
    for stop in (3, 6, 10):
        world.seal_all(BASE + stop * SLIDE)
        world.run(2.0)
    assert rows_of(world) == wanted(world.living, "ALL")


@pytest.mark.parametrize("seed", range(3))
def test_intervals_that_are_sealed_at_once_are_made_in_turn_by_two_orders(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one that is complete, and those that become complete while its rows are made."""
    orders = list[int]()

    def counted(order: ctl.Finalise, make: Callable[[ctl.Finalise], ctl.Finalised]) -> ctl.Finalised:
        orders.append(1 + len(order.then))
        return made_in_turn(order, make)

    monkeypatch.setattr(harness, "made_in_turn", counted)
    world = World(4)
    world.apply(world[0], SEALED)
    traffic(world.living, seed, 8)
    world.seal_all(BASE + 10 * SLIDE)
    world.run(2.0)
    assert rows_of(world) == wanted(world.living, "ALL")
    assert len(orders) <= 3, orders
    assert sum(orders) >= 7, "an interval without records is not made"


EARLY = SEALED.replace("EVERY '10 s'", "EVERY '10 s' EARLY '1 s'").replace("ALL AFTER", "ONE RECORDS 2 AFTER")
"""Each producer of a key has two records of it."""


def report(world: World, agent: Agent, text: str = EARLY) -> None:
    """The early states of all intervals that an agent has not sealed, as its worker would send them."""
    query = ql.Query(ql.parse(text), member=agent.me.id.hex())
    windows = SealedWindows(query.statement)
    records = agent.logs.get("clicks", [])
    batch = pa.record_batch(
        {
            "ts": pa.array([at for at, _ in records], pa.timestamp("us", tz="UTC")),
            "k": [key.removesuffix(ENDS) for _, key in records],
            "v": [int(not key.endswith(ENDS)) for _, key in records],
        }
    )
    windows.insert(batches_of(query.prepare(batch)))
    worker = next(each for each in agent.workers.values() if each.manifest.qualified == JOB)
    windows.drop_below(worker.sealed)
    about = worker.manifest.job_id, worker.manifest.incarnation
    for each in windows.take(worker.sealed, None, 3):
        world.post(0.0, agent, ctl.EarlyReported(*about, each.interval, each.payload))


def early_rows(world: World) -> dict[int, list[tuple[Any, ...]]]:
    found = world.results(world.living[0], JOB, state="early", revision=0)
    lines = [(record, rows) for record, rows in found if record.state == "EARLY"]
    return {record.index: [(row["k"], row["hits"]) for row in rows] for record, rows in lines}


def test_sealed_partitions_have_early_rows_beside_the_groups_that_closed_intervals_left_open() -> None:
    world = World(3)
    world.apply(world[0], EARLY)
    feed(world[0], (0.1, "a"), (1.1, "a"), (2.2, "a!"), (2.3, "b"), (2.3, "b!"))
    feed(world[1], (0.1, "c"), (3.1, "c!"))
    world.seal_all(BASE + 2 * SLIDE)
    world.run(2.0)
    assert early_rows(world) == {}
    for agent in world.living:
        report(world, agent)
    world.run(1.0)
    assert early_rows(world) == {1002: [("a", 2)]}, "b and c lack a record"
    feed(world[1], (3.0, "c"))
    report(world, world[1])
    world.run(1.0)
    assert early_rows(world) == {1002: [("a", 2)]}, "the interval before is open"
    world.seal_all(BASE + 3 * SLIDE)
    world.run(2.0)
    assert early_rows(world) == {1003: [("c", 2)]}, "the record has replaced those of its interval"
    world.seal_all(BASE + 6 * SLIDE)
    world.run(2.0)
    assert rows_of(world) == {1002: [("a", 2), ("b", 1)], 1003: [("c", 2)]}
    records = {record.index: record for record, _ in world.results(world[0], JOB)}
    assert records[1003].is_clean
    assert (records[1002].state, records[1002].withdrawn) == ("FINAL_PARTIAL", [])


def test_a_row_that_the_record_of_its_interval_lacks_is_withdrawn() -> None:
    """A second producer seals a partition of ONE."""
    world = World(3)
    world.apply(world[0], EARLY)
    world.seal_all(BASE)
    world.run(1.0)
    feed(world[0], (0.1, "a"), (0.2, "a"), (0.3, "a!"))
    report(world, world[0])
    world.run(1.0)
    assert early_rows(world) == {1000: [("a", 2)]}
    feed(world[1], (0.1, "a"), (0.2, "a"), (0.3, "a!"))
    world.seal_all(BASE + 3 * SLIDE)
    world.run(2.0)
    assert rows_of(world) == {1000: [("a", 4)]}
    (record,) = (each for each, _ in world.results(world[0], JOB) if each.index == 1000)
    assert not record.is_clean
    assert list(record.withdrawn) == [{"k": "a", "hits": 2}]
    assert record.completeness == 0.5


def test_a_successor_emits_early_rows_of_its_own() -> None:
    world = World(6)
    world.apply(world[0], EARLY)
    dead = world.master(JOB)
    stay = [agent for agent in world.living if agent is not dead]
    feed(stay[0], (0.1, "a"), (1.1, "a"), (2.2, "a!"))
    world.seal_all(BASE + 2 * SLIDE)
    world.run(2.0)
    report(world, stay[0])
    world.run(1.0)
    assert early_rows(world) == {1002: [("a", 2)]}
    world.kill(dead)
    world.run(10.0)
    assert world.master(JOB) is not dead
    assert early_rows(world) == {}
    report(world, stay[0])
    world.run(1.0)
    assert early_rows(world) == {1002: [("a", 2)]}, "with the open groups of the register"


def test_an_evicted_member_is_not_waited_for_and_lowers_the_completeness() -> None:
    world = World(4)
    world.apply(world[0], SEALED)
    master = world.master(JOB)
    dead = next(agent for agent in world.living if agent is not master)
    for agent in world.living:
        feed(agent, (0.5, "a"))
        if agent is not dead:
            feed(agent, (1.5, "a!"))
    world.seal_all(BASE + SLIDE)
    world.run(2.0)
    world.kill(dead)
    for minute in range(1, 12):
        world.seal_all(BASE + (1 + 6 * minute) * SLIDE)
        world.run(60.0)
    found = {record.index: (record, rows) for record, rows in world.results(world.living[0], JOB) if rows}
    ((record, rows),) = found.values()
    assert [row["hits"] for row in rows] == [4]
    assert (record.state, record.completeness) == ("FINAL_PARTIAL", 0.75)


def test_partitions_beyond_the_limit_skip_the_interval_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(open_groups, "OPEN_BYTES_MAX", 2000)
    world = World(3)
    world.apply(world[0], SEALED)
    feed(world[0], (0.5, "a"), *((1.5, sha256(b"%d" % number).hexdigest()) for number in range(200)))
    world.seal_all(BASE + 3 * SLIDE)
    world.run(5.0)
    records = {record.index: record for record, _ in world.results(world[0], JOB)}
    assert (records[1000].state, records[1001].state) == ("FINAL", "SKIPPED")
    assert "the open partitions have" in records[1001].reason
    assert "2000" in records[1001].reason


def test_partitions_cost_no_change_of_the_register_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The changes that close intervals are as many with a thousand partitions as with one."""
    submit, submitted, changes, closing = Proposer.submit, [0], list[int](), list[int]()

    def counted(self: Proposer, *args: Any) -> None:
        submitted[0] += 1
        submit(self, *args)

    monkeypatch.setattr(Proposer, "submit", counted)
    for keys in (1, 1000):
        submitted[0] = 0
        world = World(3)
        world.apply(world[0], SEALED.replace("ALL", "ONE"))
        for at in range(10):
            feed(
                world[at % 3],
                *((at + 0.2, f"k{number}") for number in range(at, keys, 10)),
                (at + 0.3, f"x{at}"),
            )
            feed(world[(at + 1) % 3], *((at + 0.9, f"k{number}{ENDS}") for number in range(at, keys, 10)))
        world.seal_all(BASE + 10 * SLIDE)
        before = submitted[0]
        world.run(5.0)
        assert sum(map(len, rows_of(world).values())) >= (keys if keys > 1 else 1)
        assert [record.index for record, _ in world.results(world[0], JOB)] == [*range(1000, 1010)]
        changes.append(submitted[0])
        closing.append(submitted[0] - before)
    assert 0 < changes[1] <= changes[0]
    assert closing[1] <= 10, "one for each interval, or for several"


@pytest.mark.parametrize(
    ("clause", "text"),
    [
        ("SEALED", SEALED),
        ("TOPIC", TOPIC),
        ("EARLY", TEXT.replace("DEADLINE", "EARLY '1 s' DEADLINE")),
        ("ASSUME", TEXT.replace("DEADLINE", "ASSUME (k -> v) DEADLINE")),
    ],
)
def test_an_agent_that_does_not_know_the_clause_refuses_the_job_by_its_name(
    clause: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent of an earlier release cannot read the text; no member runs it then."""
    world = World(4)
    old = world[2]
    reading = [old.control.member_host]
    announced = MemberHost.on_announce

    def read(text: str) -> Any:
        if reading[0] is old.control.member_host and clause in text:
            raise QueryError(f"{clause} is not known", line=2, column=10, source="query")
        return read_plan(text)

    def on_announce(self: MemberHost, *args: Any, **how: Any) -> Any:
        reading[0] = self
        return announced(self, *args, **how)

    monkeypatch.setattr(member_host, "read_plan", read)
    monkeypatch.setattr(MemberHost, "on_announce", on_announce)
    reply = world.apply(world[0], text)
    assert reply.status == 400
    assert old.control.context.name in str(reply.body)
    assert clause in str(reply.body)
    other = world.apply(world[0], SESSIONS)
    assert other.status in (200, 201), "other jobs are untouched"


def test_a_verification_is_refused_with_the_reason() -> None:
    world = World(3)
    world.apply(world[0], SEALED)
    feed(world[0], (0.5, "a"))
    world.seal_all(BASE + 4 * SLIDE)
    world.run(3.0)
    reply = world.ask(world[0], "verify", {"job": JOB, "interval": 1000})
    assert "SEALED cannot be verified" in str(reply.body)


def test_a_member_that_joins_is_waited_for() -> None:
    world = World(3)
    world.apply(world[0], SEALED)
    for agent in world.living:
        feed(agent, (0.5, "a"))
    feed(world[0], (1.5, "a!"))
    feed(world[1], (1.5, "a!"))
    world.seal_all(BASE + 2 * SLIDE)
    world.run(2.0)
    newcomer = world.add(9)
    world.run(10.0)
    feed(newcomer, (9.5, "a"), (12.5, "a!"))
    feed(world[2], (9.2, "a!"))
    for stop in (5, 8, 11, 14):
        world.seal_all(BASE + stop * SLIDE)
        world.run(5.0)
    assert rows_of(world) == {1012: [("a", 4)]}
