"""Results before all members are in: shown at the deadline, corrected with arrivals, then final (D-9,
D-10)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from elfmesh.control.closing.tentative import OPEN_MAX, Tentative
from elfmesh.control.context import Context
from elfmesh.control.jobs.fidelity import Rates, UsualRate
from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.records import BUCKETS, ResultRecord
from elfmesh.ql.values.plain_ipc import ipc_to_table
from elfmesh.ql.values.row_json import rows_to_json
from tests.control.clicks import BASE, SLIDE, exact, fill
from tests.control.contexts import new_context
from tests.control.harness import World
from tests.control.member.support import TEXT, Agent


def seen(world: World, agent: Agent, **body: Any) -> tuple[list[tuple[ResultRecord, list[Any]]], int]:
    """What a reader of all states gets, and the cursor to go on from."""
    reply = world.ask(agent, "results", {"job": "shop/top", "state": "all", **body})
    page = [(record, rows_to_json(ipc_to_table(rows))) for record, rows in decode_page(reply.payload)]
    return page, reply.body["revision"]


def started(agents: int = 3, text: str = TEXT, intervals: int = 2) -> World:
    world = World(agents)
    fill(world, intervals=intervals)
    world.apply(world[0], text)
    return world


def test_at_the_deadline_what_is_there_is_shown_and_then_corrected() -> None:
    world = started(intervals=1)
    world[0].seal("clicks", BASE + SLIDE)
    world.run(0.5)
    assert seen(world, world[0])[0] == [], "nothing before the deadline"
    world.run(1.0)
    ((first, rows),), cursor = seen(world, world[0])
    assert (first.state, first.rev, first.agents_in, first.agents_expected) == ("TENTATIVE", 1, 1, 3)
    assert first.missing == ["agent-1", "agent-2"]
    assert sum(row["hits"] for row in rows) == first.counts["contributed"] > 0
    world[1].seal("clicks", BASE + SLIDE)
    world.run(1.0)
    ((second, more),), _ = seen(world, world[2], revision=cursor)
    assert (second.rev, second.agents_in) == (2, 2)
    assert sum(row["hits"] for row in more) > sum(row["hits"] for row in rows)
    world[2].seal("clicks", BASE + SLIDE)
    world.run(1.0)
    exact(world, world[0])
    ((final, _),), _ = seen(world, world[0])
    assert (final.state, final.rev, final.completeness) == ("FINAL", 3, 1.0)
    (measured,) = world.ask(world[1], "describe", {"job": "shop/top"}).body["tentative"]
    final_rows, last = (hits_of(each) for each in (world.results(world.master())[0][1], more))
    assert measured["records"] == 1
    assert measured["fidelity"] == pytest.approx(second.fidelity, abs=0.05)
    assert measured["overlap"] == pytest.approx(len(last) / len(final_rows), abs=1e-4)
    off = sum(abs(hits - last.get(key, 0)) for key, hits in final_rows.items()) / sum(final_rows.values())
    assert measured["error"] == pytest.approx(off, abs=1e-4)
    assert world.master().control.tentative_overlaps() == {
        "shop/top": pytest.approx(measured["overlap"], abs=1e-4)
    }


def hits_of(rows: list[Any]) -> dict[str, int]:
    return {row["product"]: row["hits"] for row in rows}


def test_a_reader_of_final_records_sees_no_tentative_one() -> None:
    world = started()
    world[0].seal("clicks", BASE + SLIDE)
    world.run(2.0)
    assert world.results(world[0]) == []
    assert decode_page(world.ask(world[1], "results", {"job": "shop/top"}).payload) == []


@pytest.mark.parametrize("rule", ["WAIT", "SKIP"])
def test_other_rules_show_nothing_before_its_end(rule: str) -> None:
    world = started(text=TEXT.replace("DEADLINE '1 s'", f"DEADLINE '1 s' ON STRAGGLER {rule}"))
    world[0].seal("clicks", BASE + SLIDE)
    world.run(1.5)
    assert [record for record, _ in seen(world, world[0])[0] if record.state == "TENTATIVE"] == []


def test_a_dead_agent_that_comes_back_in_its_time_makes_the_interval_whole() -> None:
    world = started(agents=4, text=TEXT.replace("DEADLINE '1 s'", "DEADLINE '1 s' HORIZON '3 s'"))
    victim = next(agent for agent in world.living if agent is not world.master())
    world.kill(victim)
    for agent in world.living:
        agent.seal("clicks", BASE + 2 * SLIDE)
    world.run(2.0)
    states = {record.state for record, _ in seen(world, world.master())[0]}
    assert states == {"TENTATIVE"}
    world.restart(victim)
    world.run(1.0)
    victim.seal("clicks", BASE + 2 * SLIDE)
    world.run(2.0)
    exact(world, world.master())
    assert {record.state for record, _ in world.results(world.master())} == {"FINAL"}


def test_the_horizon_of_a_job_bounds_how_long_it_may_be_corrected() -> None:
    world = started(text=TEXT.replace("DEADLINE '1 s'", "DEADLINE '1 s' HORIZON '20 s'"))
    world.kill(next(agent for agent in world.living if agent is not world.master()))
    for agent in world.living:
        agent.seal("clicks", BASE + SLIDE)
    world.run(18.0)
    assert world.results(world.master()) == []
    world.run(5.0)
    ((record, _),) = world.results(world.master())
    assert (record.state, record.rev) == ("FINAL_PARTIAL", 2)


def test_a_long_poll_is_woken_by_a_revision_and_gets_it_once() -> None:
    world = started()
    _, cursor = seen(world, world[0])
    token = world.request(
        world[1], "results", {"job": "shop/top", "state": "all", "from": 0, "revision": cursor, "wait": 20}
    )
    world[0].seal("clicks", BASE + SLIDE)
    world.run(3.0)
    reply = world[1].replies[token]
    assert [record.state for record, _ in decode_page(reply.payload)] == ["TENTATIVE"]
    again, _ = seen(world, world[1], revision=reply.body["revision"])
    assert again == []


def test_a_successor_begins_its_own_revisions_with_higher_numbers() -> None:
    world = started(agents=5)
    straggler = world[4] if world.master() is not world[4] else world[3]
    for agent in world.living:
        if agent is not straggler:
            agent.seal("clicks", BASE + SLIDE)
    world.run(2.0)
    _, before = seen(world, straggler)
    world.kill(world.master())
    world.run(6.0)
    found, after = seen(world, straggler, revision=before)
    assert after > before
    assert [record.state for record, _ in found] == ["TENTATIVE"]
    straggler.seal("clicks", BASE + SLIDE)
    world.run(6.0)
    ((record, _),) = world.results(world.master())
    assert record.state == "FINAL_PARTIAL", "the old master's own records are missing"


def test_a_step_looks_at_no_more_intervals_than_may_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    world = started(text=TEXT.replace("DEADLINE '1 s'", "DEADLINE '1 s' HORIZON '1 h'"), intervals=600)
    world[0].seal("clicks", BASE + 600 * SLIDE)
    world.run(3.0)
    master = next(iter(world.master().control.leadership.masters.values()))
    closer, collection = master.term.closer, master.term.collection
    looked: list[int] = []
    due_since = collection.due_since

    def first_look(index: int) -> float | None:
        looked.append(index)
        return due_since(index)

    monkeypatch.setattr(collection, "due_since", first_look)
    closer.advance()
    assert 0 < len(looked) <= 2 * OPEN_MAX


def test_a_reader_without_a_cursor_gets_each_open_interval_over_pages() -> None:
    world = started(intervals=12)
    world[0].seal("clicks", BASE + 12 * SLIDE)
    world.run(3.0)
    world[1].seal("clicks", BASE + 3 * SLIDE)
    world.run(3.0)
    found: list[int] = []
    start = 0
    while True:
        page, _ = seen(world, world[0], limit=5, **{"from": start})
        if not page:
            break
        assert len(page) <= 5
        found += [record.index for record, _ in page]
        start = found[-1] + 1
    assert found == list(range(1000, 1012)), "not in the order of their revisions"
    cursor, numbers = 0, []
    while page_ := seen(world, world[0], limit=5, revision=cursor):
        page, cursor = page_
        if not page:
            break
        assert len(page) <= 5
        numbers += [record.index for record, _ in page]
    assert sorted(numbers) == found, "with one each revision once"


# -- the shelf -----------------------------------------------------------------------------------------


def record(index: int, rev: int) -> ResultRecord:
    return ResultRecord(job="shop/top", index=index, state="TENTATIVE", rev=rev)


def shelf() -> tuple[Tentative, Context, list[str]]:
    context = new_context(1)
    reported: list[str] = []
    return (
        Tentative(context, 1, lambda: reported.append("again"), lambda: reported.append("shown")),
        context,
        reported,
    )


def test_revisions_grow_and_coverage_never_shrinks() -> None:
    rng = random.Random(3)
    held, context, _ = shelf()
    last: dict[int, tuple[int, tuple[int, int, int]]] = {}
    for _ in range(2000):
        index, mask = rng.randrange(5), rng.getrandbits(4)
        context.now += rng.random()
        inside = (mask, rng.randrange(3), 0)
        rev = held.wants(index, inside) if held.has_room else 0
        if rev:
            number, before = last.get(index, (0, (0, 0, 0)))
            assert rev == number + 1
            assert mask & before[0] == before[0]
            assert inside[1] >= before[1]
            assert inside != before
            held.begin(record(index, rev), inside)
            last[index] = (rev, inside)
            if rng.random() < 0.8:
                held.made(index, rev, b"rows")
            else:
                held.failed(index, rev)
        numbers = [held.number(one.index) for one, _ in held.since(0)]
        assert numbers == sorted(set(numbers))
    assert max(rev for rev, _ in last.values()) > 2


def test_what_is_held_is_bounded_and_forgotten() -> None:
    held, context, _ = shelf()
    for index in range(2 * OPEN_MAX):
        context.now += 1.0
        if rev := held.wants(index, (1, 0, 0)):
            held.begin(record(index, rev), (1, 0, 0))
            held.made(index, rev, b"x" * 100)
    assert len(held) == OPEN_MAX
    held.drop_below(OPEN_MAX - 1)
    assert [one.index for one, _ in held.since(0)] == [OPEN_MAX - 1]
    held.clear()
    assert list(held.since(0)) == []


def test_rows_that_come_after_the_end_are_dropped() -> None:
    held, _, reported = shelf()
    held.begin(record(7, 1), (1, 0, 0))
    held.drop_below(8)
    held.made(7, 1, b"late")
    assert (list(held.since(0)), reported) == ([], [])


# -- fidelity ------------------------------------------------------------------------------------------

NOTHING = (0,) * len(BUCKETS)


@pytest.mark.parametrize(
    ("required", "missing", "rates", "expected"),
    [
        (0b111, 0b000, {}, 1.0),
        (0b111, 0b001, {}, 2 / 3),
        (0b111, 0b001, {0: 900.0, 1: 50.0, 2: 50.0}, 0.1),
        (0b111, 0b100, {0: 900.0, 1: 50.0, 2: 50.0}, 0.95),
        (0b11, 0b10, {0: 10.0}, 0.5),
        (0b11, 0b10, {0: 0.0, 1: 0.0}, 0.5),
        (0b11, 0b11, {0: 5.0, 1: 5.0}, 0.0),
    ],
)
def test_fidelity_is_the_rate_weighted_share_of_the_expected_input(
    required: int, missing: int, rates: dict[int, float], expected: float
) -> None:
    reported = Rates()
    for number, records in rates.items():
        reported.reported(number, (records,))
    assert reported.fidelity(required, missing, NOTHING) == pytest.approx(expected)


@pytest.mark.parametrize("nonsense", [-1.0, float("nan"), float("inf"), 1.7e308])
def test_a_rate_that_cannot_be_is_not_believed(nonsense: float) -> None:
    reported = Rates()
    reported.reported(0, (nonsense,))
    assert reported.fidelity(0b11, 0b01, NOTHING) == pytest.approx(0.5)


def test_a_rate_is_reported_at_once_then_only_when_it_has_changed_or_the_master_has() -> None:
    rate = UsualRate()
    assert rate.news(1, 0.0) is None
    rate.add((100,))
    assert rate.news(1, 0.0) == (100,)
    rate.add((100,))
    assert rate.news(1, 60.0) is None
    assert rate.news(2, 61.0) == (100,)
    for _ in range(10):
        rate.add((1000,))
    assert rate.news(2, 65.0) is None, "too soon"
    news = rate.news(2, 80.0)
    assert news is not None
    assert 800 < news[0] < 1000


def test_the_record_of_a_partial_interval_weighs_the_missing_members() -> None:
    world = World(3)
    world.apply(world[0])
    busy = next(agent for agent in world.living if agent is not world.master())
    for agent in world.living:
        agent.feed("clicks", [(BASE + at, "a") for at in range(90 if agent is busy else 5)])
        agent.feed("clicks", [(BASE + SLIDE + at, "a") for at in range(90 if agent is busy else 5)])
    world.seal_all(BASE + SLIDE)
    world.run(1.0)
    world.kill(busy)
    world.seal_all(BASE + 2 * SLIDE)
    world.run(5.0)
    last, _ = world.results(world.living[0])[-1]
    assert last.state == "FINAL_PARTIAL"
    assert last.completeness == pytest.approx(2 / 3)
    assert last.fidelity == pytest.approx(10 / 100)


def test_a_declared_horizon_is_a_bound_whichever_member_makes_progress() -> None:
    text = TEXT.replace("DEADLINE '1 s'", "DEADLINE '1 s' HORIZON '3 s'")
    world = started(text=text, intervals=12)
    world[0].seal("clicks", BASE + 10 * SLIDE)
    world[1].seal("clicks", BASE + 10 * SLIDE)
    for step in range(12):  # it comes nearer all the time, and never in time
        world.run(0.5)
        if step % 4 == 3:
            world[2].seal("clicks", BASE + (step // 4 + 1) * SLIDE)
    found = {record.index: record for record, _ in world.results(world[0])}
    assert list(found) == list(range(1000, 1010))
    assert {found[index].state for index in range(1003, 1010)} == {"FINAL_PARTIAL"}
