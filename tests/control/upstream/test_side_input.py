"""A stream beside another job's newest result: which result that is follows from event time alone."""

from __future__ import annotations

import random
from typing import Any

import pytest

from elfmesh import ids
from elfmesh.control.answers import NOT_FOUND
from elfmesh.control.jobs.manifest import new_manifest
from elfmesh.control.jobs.plan import read_job
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.protocol.messages import Answered, Ask, unpack
from elfmesh.control.upstream.buffer import NOTHING
from elfmesh.control.upstream.poller import UNKNOWN_AGAIN_S
from elfmesh.control.upstream.side_input import BACK, LatestRead, SideInput
from elfmesh.overlay.events import Route
from tests.control.clicks import BASE, SLIDE, fill
from tests.control.contexts import new_context
from tests.control.harness import World
from tests.control.member.support import SECOND

GROWTH = """CREATE JOB shop.growth EVERY '10 s' DEADLINE '1 s' AS
SELECT c.product, count(*) AS hits, max(l.hits) AS before
FROM clicks c LEFT JOIN LATEST shop.top l ON c.product = l.product GROUP BY c.product"""


def expected(world: World, *, first: int = 0) -> dict[int, list[dict[str, Any]]]:
    """Each interval beside the newest one that had ended when it began, of those that begin at `first`."""
    counts = world.expected(SLIDE)
    found = {}
    for index, rows in counts.items():
        seen = max((each for each in counts if first <= each < index), default=None)
        before = {} if seen is None else {row["product"]: row["hits"] for row in counts[seen]}
        found[index] = [row | {"before": before.get(row["product"])} for row in rows]
    return found


def check(world: World, *, upto: int, since: int = 0, first: int = 0) -> list[tuple[ResultRecord, Any]]:
    """All intervals from `since` to before `upto`, each once and in order, and no others."""
    found = world.results(world.living[0], "shop/growth")
    wanted = {index: rows for index, rows in expected(world, first=first).items() if since <= index < upto}
    assert [record.index for record, _ in found] == sorted(wanted), "each once, in order"
    assert {record.index: rows for record, rows in found} == wanted
    return found


def seal(world: World, upto: int) -> None:
    world.seal_all(BASE + (upto - 1000) * SLIDE)


def test_an_interval_sees_the_result_before_it() -> None:
    world = World(4)
    fill(world, intervals=8)
    fill(world, first=1010, intervals=3)  # nothing between: what was there before is the newest still
    world.apply(world[0])
    reply = world.apply(world[1], GROWTH)
    assert (reply.status, reply.body["expected"]) == (200, 4)
    for upto in (1001, 1004, 1009, 1013):
        seal(world, upto)
        world.run(8.0)
        found = check(world, upto=upto)
    assert {(record.state, record.completeness) for record, _ in found} == {("FINAL", 1.0)}
    assert found[8][0].index == 1010
    assert any(row["before"] for row in found[8][1]), "of interval 1007"


@pytest.mark.parametrize("silence", [3, BACK * 20])
def test_a_job_that_begins_later_looks_back_until_there_are_rows(silence: int) -> None:
    world = World(3)
    fill(world, intervals=4)
    world.apply(world[0])
    seal(world, 1004)
    world.run(3.0)
    late = 1004 + silence
    world.apply(world[2], GROWTH)
    seal(world, late)
    world.run(3.0)
    fill(world, first=late, intervals=2, seed=2)
    seal(world, late + 2)
    world.run(8.0)
    found = check(world, upto=late + 2)
    assert [record.index for record, _ in found][-2:] == [late, late + 1]


@pytest.mark.parametrize("victim", ["shop/growth", "shop/top"])
@pytest.mark.parametrize("seed", range(6))
def test_a_new_master_of_either_job_takes_the_same_results(victim: str, seed: int) -> None:
    rng = random.Random(seed)
    world = World(7)
    candidates = [
        candidate for name in ("shop/top", "shop/growth") for candidate in ids.job_placements(name, "local")
    ]
    masters = {world.closest(candidate)[0].number for candidate in candidates}
    world = World(0)
    for number in range(7):
        world.add(number, streams={} if number in masters else {"clicks": None})
    world.run(2.0)
    fill(world, intervals=15, seed=seed)
    world.apply(world[0])
    world.apply(world[1], GROWTH)
    for upto in range(1001, 1008):
        seal(world, upto)
        world.run(rng.choice([0.002, 0.01, 0.3, 1.0]))
    dead = world.master(victim)
    assert dead.number in masters, "who contributes nothing is missed by no interval"
    world.kill(dead)
    for upto in range(1008, 1016):
        seal(world, upto)
        world.run(rng.choice([0.002, 0.5, 2.0]))
    world.run(40.0)
    found = check(world, upto=1015)
    assert {record.state for record, _ in found} == {"FINAL"}


def test_what_is_missing_there_is_missing_here() -> None:
    world = World(5)
    fill(world, intervals=6)
    world.apply(world[0])
    world.apply(world[1], GROWTH)
    masters = {world.master("shop/top").number, world.master("shop/growth").number}
    dead = next(agent for agent in world.living if agent.number not in masters)
    seal(world, 1002)
    world.run(6.0)
    world.kill(dead)
    seal(world, 1006)
    world.run(30.0)
    top = {record.index: record for record, _ in world.results(world.living[0])}
    found = world.results(world.living[0], "shop/growth")
    assert {record.state for record, _ in found} == {"FINAL", "FINAL_PARTIAL"}
    for record, _ in found[1:]:
        seen = top[record.index - 1]
        assert record.completeness <= seen.completeness
        assert set(seen.missing) <= set(record.missing)
    complete = [record for record, _ in found if record.completeness == 1.0]
    assert {record.index for record in complete} == {1000, 1001}


def test_it_waits_while_the_other_is_paused_and_why_reports_it() -> None:
    world = World(4)
    fill(world, intervals=9)
    world.apply(world[0])
    world.apply(world[1], GROWTH)
    seal(world, 1003)
    world.run(8.0)
    world.ask(world[0], "pause", {"job": "shop/top"})
    world.run(1.0)
    seal(world, 1009)
    world.run(90.0)
    check(world, upto=1004)
    why = world.ask(world[0], "why", {"job": "shop/growth"}).body
    assert why["reads"] == ["shop.top: it is paused"]
    assert "shop.top" in why["because"]
    world.ask(world[0], "resume", {"job": "shop/top"})
    world.run(30.0)
    check(world, upto=1009)


def test_the_other_job_stays_as_long_as_it_is_read() -> None:
    world = World(3)
    fill(world, intervals=3)
    world.apply(world[0])
    world.apply(world[1], GROWTH)
    world.run(3.0)
    reply = world.ask(world[0], "delete", {"job": "shop/top"})
    assert reply.status == 409
    assert "shop/growth" in reply.body["error"]


def test_a_job_that_is_not_there_and_a_column_it_does_not_have_are_refused() -> None:
    world = World(3)
    reply = world.apply(world[1], GROWTH)
    assert reply.status == 400
    assert "there is no job shop.top" in reply.body["error"]
    world.apply(world[0])
    reply = world.apply(world[1], GROWTH.replace("l.hits", "l.hitz"))
    assert reply.status == 400
    assert "no column hitz" in reply.body["error"]


# -- what is held of a log


def record(
    index: int, rows: bool, state: Any = "FINAL", since: int | None = None
) -> tuple[ResultRecord, bytes]:
    import pyarrow as pa

    from elfmesh.ql.values.plain_ipc import table_to_ipc

    share = 1.0 if state == "FINAL" else 0.5
    found = ResultRecord(job="a/b", index=index, state=state, completeness=share, fidelity=share, since=since)
    return found, table_to_ipc(pa.table({"x": pa.array([index] if rows else [], pa.int64())}))


def read_of(size: int, slide: int, want: int) -> LatestRead:
    read = LatestRead("latest a/b", ())
    read.size_us, read.slide_us = size, slide
    read.want(want)
    return read


def test_held_is_the_newest_with_rows_and_what_is_missing_since() -> None:
    rng = random.Random(4)
    for _ in range(200):
        slide = rng.choice([5, 10])
        size = slide * rng.choice([1, 3])
        log = [
            record(index, rng.random() < 0.5, rng.choice(["FINAL", "FINAL", "FINAL_PARTIAL"]))
            for index in range(-10, 30)
            if rng.random() < 0.7
        ]
        read = read_of(size, slide, 20)
        read.first_us = -10 * slide
        read.take(log, slide)
        read.until_us = 30 * slide
        for start in range(20, 25 * slide, 7):
            read.want(start)
            seen = [each for each in log if each[0].index * slide + size <= start]
            with_rows = [each for each in seen if read_rows(each[1])]
            if not with_rows:
                continue
            assert read.knows(start)
            piece = read.seen_by(start)
            assert piece is not None
            assert piece.at_us == with_rows[-1][0].index * slide
            since = [each[0] for each in seen if each[0].index >= with_rows[-1][0].index]
            assert read.quality(start).completeness == min(each.completeness for each in since)
            read.prune(start)
            assert read.nbytes == sum(len(each.rows or b"") for each in read.pieces)


def read_rows(data: bytes) -> int:
    from elfmesh.ql.values.plain_ipc import ipc_to_table

    return int(ipc_to_table(data).num_rows)


def test_results_that_are_no_longer_kept_are_missed_and_a_jobs_beginning_is_not() -> None:
    for expired in (True, False):
        read = read_of(SECOND, SECOND, 1000 * SECOND)
        read.lost(990 * SECOND, expired=expired)
        read.begin_us = read.until_us = 990 * SECOND
        read.until_us = 1000 * SECOND
        assert read.knows(1000 * SECOND)
        assert read.seen_by(1000 * SECOND) is None
        assert (read.quality(1000 * SECOND) == NOTHING) == expired
    read.lost(1010 * SECOND)
    read.until_us = 1011 * SECOND
    assert read.quality(1005 * SECOND).completeness == 0.0, "it was deleted and applied again"


def test_a_job_that_is_not_there_is_asked_for_after_a_pause() -> None:
    """Whatever else goes on: an interval that waits for it is looked at whenever a contribution comes."""
    context = new_context(1)
    job, _ = read_job(GROWTH)
    manifest = new_manifest(job, GROWTH, "local", created=5, incarnation="i")
    latest = SideInput(context, [manifest], lambda: None)
    latest.begin()
    asked = 0
    for tenth in range(100):
        context.now = tenth / 10
        context.fire()
        assert not latest.has_read(1000)
        while context.out and asked < 1000:
            effect = context.out.pop(0)
            if isinstance(effect, Route):
                ask = unpack(effect.body)
                assert isinstance(ask, Ask)
                asked += 1
                context.on_answered(Answered(ask.token, NOT_FOUND, 2), b"{}")
    seconds, candidates = 10, 2
    assert 2 * candidates <= asked <= (seconds / UNKNOWN_AGAIN_S + 1) * candidates
