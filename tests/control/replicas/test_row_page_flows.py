"""Records whose rows are pages, between control machines: who votes, who catches up, who answers readers."""

from __future__ import annotations

import random

import pytest

from elfmesh import ids
from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.row_pages import table_of
from elfmesh.control.protocol.messages_succession import Fetch, Page
from elfmesh.errors import ProtocolError
from elfmesh.machine import Message
from tests.control.clicks import BASE, SLIDE, exact
from tests.control.harness import World
from tests.control.member.support import TEXT, Agent

JOB = ids.job_id("shop/top", "local")
PAGE = 700


def fill(world: World, intervals: int, first: int = 1000) -> None:
    """Records of so many products that their rows are some pages."""
    rng = random.Random(first)
    for agent in world.living:
        records = [
            (index * SLIDE + rng.randrange(SLIDE), f"product-{rng.randrange(120):04}")
            for index in range(first, first + intervals)
            for _ in range(100)
        ]
        agent.feed("clicks", sorted(records))


def begun(agents: int = 4) -> World:
    world = World(agents)
    world.page_bytes = PAGE
    world.apply(world[0])
    return world


def seal(world: World, intervals: int, first: int = 1000, seconds: float = 4.0) -> None:
    fill(world, intervals, first)
    world.seal_all(BASE + (first - 1000 + intervals) * SLIDE)
    world.run(seconds)


def voters(world: World) -> list[Agent]:
    master = world.master().control.leadership.masters[JOB]
    return [world.agents[contact.id] for contact in master.term.committer.cell.contacts]


def held(agent: Agent) -> set[bytes]:
    return {digest for log in agent.pages.values() for digest in log}


def needed(agent: Agent) -> set[bytes]:
    """The pages of the records in an agent's log."""
    _, records = agent.results[JOB]
    tables = [table_of(rows) for _, rows in records]
    assert all(table is not None and len(table.pages) > 2 for table in tables)
    return {page.digest for table in tables if table is not None for page in table.all}


def test_readers_get_all_rows_and_every_voter_has_the_pages() -> None:
    world = begun()
    seal(world, 4)
    exact(world, world[3])
    world.run(2.0)
    for voter in voters(world):
        assert needed(voter) <= held(voter)


def test_no_voter_accepts_a_record_before_it_has_all_its_pages() -> None:
    world = begun()

    def drops(source: Agent, target: Agent, message: Message) -> bool:
        return isinstance(message, Page) and bool(message.part)

    world.lost = drops
    fill(world, 1)
    world.seal_all(BASE + SLIDE)
    world.run(8.0)
    master = world.master()
    assert not master.results.get(JOB, ("", []))[1], "a majority lacks the pages: nothing is closed"
    assert master.control.leadership.masters[JOB].term.committer.unanswered_s > 1
    others = [voter for voter in voters(world) if voter is not master]
    assert not any(held(voter) for voter in others)
    world.lost = lambda source, target, message: False
    world.run(20.0)
    exact(world, world[1])


def test_a_majority_of_voters_is_enough_and_an_absent_voter_catches_up_with_the_pages() -> None:
    world = begun()
    seal(world, 1)
    away = next(voter for voter in voters(world) if voter is not world.master())
    cut = {away.me.id}
    world.lost = lambda source, target, message: bool({source.me.id, target.me.id} & cut)
    seal(world, 2, 1001, seconds=6.0)
    world.seal_all(BASE + 3 * SLIDE)
    world.run(20.0)
    closed = len(world.master().results[JOB][1])
    assert closed >= 2, "two of three hold them"
    assert len(away.results.get(JOB, ("", []))[1]) < closed
    cut.clear()
    world.run(5.0)
    fill(world, 1, 1003)
    world.seal_all(BASE + 4 * SLIDE)
    world.run(30.0)
    assert [record.index for record, _ in away.results[JOB][1]][:3] == [1000, 1001, 1002]
    assert needed(away) <= held(away), "it appended nothing whose pages it had not"


@pytest.mark.parametrize("pages", [0, 1, 3])
def test_a_voter_that_restarts_in_the_middle_of_pages_fetches_the_others_only(pages: int) -> None:
    world = begun()
    seal(world, 1)
    victim = next(voter for voter in voters(world) if voter is not world.master())
    before = len(held(victim))
    asked: list[bytes] = []

    def stops(source: Agent, target: Agent, message: Message) -> bool:
        if target is victim and isinstance(message, Page) and message.part:
            return len(held(victim)) >= before + pages
        return False

    world.lost = stops
    seal(world, 1, 1001, seconds=1.0)
    assert len(held(victim)) <= before + pages
    has = held(victim)
    world.kill(victim)
    world.run(1.0)
    world.restart(victim)

    def counts(source: Agent, target: Agent, message: Message) -> bool:
        if source is victim and isinstance(message, Fetch) and message.part:
            asked.append(message.part)
        return False

    world.lost = counts
    world.run(5.0)
    fill(world, 1, 1002)
    world.seal_all(BASE + 3 * SLIDE)
    world.run(20.0)
    assert not has & set(asked), "what is on disk is not asked for again"
    assert needed(victim) <= held(victim)
    exact(world, world[3])


def test_a_successor_that_lacks_the_pages_of_the_last_record_has_them_before_it_publishes() -> None:
    world = begun(5)
    seal(world, 2)
    dead = world.master()
    vote = voters(world)
    heirs = [voter for voter in vote if voter is not dead]
    lagging = heirs[0]
    world.lost = lambda source, target, message: (
        target is lagging and isinstance(message, Page) and bool(message.part)
    )
    fill(world, 1, 1002)
    world.seal_all(BASE + 3 * SLIDE)
    world.run(1.5)
    world.kill(dead)
    world.run(1.0)
    world.lost = lambda source, target, message: False
    world.run(20.0)
    heir = world.master()
    assert heir is not dead
    found = world.results(heir)
    assert [record.index for record, _ in found][:3] == [1000, 1001, 1002]
    expected = world.expected(SLIDE)
    for record, rows in found:
        if record.state == "FINAL":
            assert rows == expected[record.index]
    assert needed(heir) <= held(heir)


def test_a_page_that_a_reader_wants_and_the_master_has_lost_comes_from_another_voter() -> None:
    world = begun()
    seal(world, 2)
    world.run(2.0)
    master = world.master()
    (log,) = master.pages.values()
    whole = dict(log)
    log.clear()
    exact(world, world[2])
    assert log == whole, "and is kept again"
    for agent in world.living:
        agent.pages.clear()
    _, rows = decode_page(world.ask(world[1], "results", {"job": "shop/top", "limit": 1}).payload)[0]
    table = table_of(rows)
    assert table is not None
    asked = {"job": "shop/top", "index": 1000, "digest": table.pages[0].digest.hex()}
    reply = world.ask(world[1], "rows", asked)
    assert (reply.status, "is lost" in reply.body["error"]) == (410, True)
    assert world.ask(world[1], "rows", {"job": "shop/top", "index": 1000, "digest": "x"}).status == 400


def test_another_page_under_the_digest_of_one_is_refused() -> None:
    world = begun()
    seal(world, 1)
    voter = next(each for each in voters(world) if each is not world.master())
    before = held(voter)
    copy = voter.control.leadership.held(JOB)[1]
    assert copy is not None
    copy.pages.obtain({b"d" * 16: 1001}, [world.master().me], lambda: None)
    with pytest.raises(ProtocolError):
        copy.pages.on_page(world.master().me, Page(JOB, copy.incarnation, 1, True, part=b"d" * 16), b"else")
    assert held(voter) == before


def test_a_job_that_reads_another_sees_all_of_its_rows() -> None:
    world = begun()
    text = """CREATE JOB shop.products AS SELECT COUNT(*) AS products, SUM(hits) AS hits FROM shop.top
    GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)"""
    world.apply(world[1], text)
    seal(world, 3, seconds=8.0)
    world.run(5.0)
    expected = world.expected(SLIDE)
    found = {record.index: rows for record, rows in world.results(world[2], "shop/products")}
    for index in (1000, 1001):
        rows = expected[index]
        assert found[index] == [{"products": len(rows), "hits": sum(row["hits"] for row in rows)}]


def test_rows_of_an_interval_are_verified_page_by_page() -> None:
    world = begun()
    seal(world, 2)
    world.run(2.0)
    asked = {"job": "shop/top", "interval": 1000}
    world.ask(world[2], "verify", asked)
    world.run(2.0)
    reported = world.ask(world[2], "verify", asked).body
    assert (reported["state"], reported["rows"]) == ("equal", len(world.expected(SLIDE)[1000]))
    for agent in world.living:
        agent.logs["clicks"] = [each for each in agent.logs["clicks"] if each[1] != "product-0007"]
    world.ask(world[2], "verify", asked | {"again": True})
    world.run(2.0)
    reported = world.ask(world[2], "verify", asked).body
    assert reported["state"] == "different"


def test_a_skipped_interval_has_completeness_0_and_a_reason() -> None:
    world = World(3)
    world.poison = True
    world.apply(world[0], TEXT)
    seal(world, 1)
    ((record, rows),) = world.results(world[1])
    assert (record.state, record.completeness, record.fidelity, rows) == ("SKIPPED", 0.0, 0.0, [])
    assert record.reason == "poisoned"
