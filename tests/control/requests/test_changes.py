"""What happens to a job that is applied again, changed, paused or deleted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from elfmesh import ids
from elfmesh.control.jobs.manifest import new_manifest
from elfmesh.control.jobs.plan import read_job
from elfmesh.control.protocol.messages import Announce, Ask, Running, Submit, unpack
from elfmesh.machine import Event, Received
from elfmesh.overlay.events import RouteDelivered
from elfmesh.ql.values.row_json import encode_json
from tests.control.clicks import BASE, SLIDE, exact, fill
from tests.control.election.test_takeover import closer_than
from tests.control.harness import World
from tests.control.member.support import TEXT, Agent

JOB = ids.job_id("shop/top", "local")


def test_pause_stops_intervals_and_resume_goes_on_without_a_loss() -> None:
    world = World(3)
    fill(world, intervals=4)
    world.apply(world[0])
    world.seal_all(BASE + SLIDE)
    world.run(1.0)
    reply = world.ask(world[1], "pause", {"job": "shop/top"})
    assert (reply.status, reply.body["state"], reply.body["acknowledged"]) == (200, "paused", 3)
    world.seal_all(BASE + 4 * SLIDE)
    world.run(30.0)
    assert [record.index for record, _ in world.results(world[0])] == [1000]
    assert world.ask(world[2], "describe", {"job": "shop/top"}).body["state"] == "paused"
    assert world.ask(world[2], "resume", {"job": "shop/top"}).body["state"] == "running"
    world.run(1.0)
    exact(world, world[0])


@pytest.mark.parametrize("verb", ["pause", "empty"])
def test_a_client_learns_of_its_change_though_a_member_does_not_answer(verb: str) -> None:
    world = World(4)
    world.apply(world[0])
    world.run(2.0)
    mute = next(agent for agent in world.living if agent not in (world[0], world.master()))
    mute.alive = False  # and no agent is notified
    reply = world.ask(world[0], verb, {"job": "shop/top"})
    assert (reply.status, reply.body["acknowledged"], reply.body["expected"]) == (200, 3, 4)


def test_a_pause_is_answered_for_when_no_successor_can_have_missed_it() -> None:
    """A master that was superseded a moment ago said that a job runs again; the next one kept it paused."""
    world = World(4)
    world.apply(world[0])
    master, *voters = world.closest(JOB)[:3]
    client = world.closest(JOB)[3]
    for voter in voters:
        world.kill(voter)
    assert world.ask(client, "pause", {"job": "shop/top"}).status == 503, "the register cannot know it"
    for voter in voters:
        world.restart(voter)
    world.run(20.0)
    assert world.ask(client, "pause", {"job": "shop/top"}).body["state"] == "paused"
    world.kill(master)
    world.run(20.0)
    assert world.ask(client, "describe", {"job": "shop/top"}).body["state"] == "paused"


def test_a_long_pause_gives_no_member_up() -> None:
    """Some had sealed an interval when the order to pause came, others had not."""
    world = World(3)
    fill(world, intervals=4)
    world.apply(world[0])
    for number in (0, 1):
        world[number].seal("clicks", BASE + 2 * SLIDE)
    world.run(1.0)
    assert world.ask(world[1], "pause", {"job": "shop/top"}).body["state"] == "paused"
    world.run(300.0)
    assert world.results(world[0]) == []
    assert world.ask(world[2], "resume", {"job": "shop/top"}).body["state"] == "running"
    world.run(3.0)
    world.seal_all(BASE + 4 * SLIDE)
    world.run(1.0)
    exact(world, world[0])
    assert {record.state for record, _ in world.results(world[0])} == {"FINAL"}


def test_delete_stops_the_workers_and_nothing_brings_the_job_back() -> None:
    world = World(4)
    fill(world, intervals=2)
    world.apply(world[0])
    world.seal_all(BASE + 2 * SLIDE)
    world.run(1.0)
    reply = world.ask(world[2], "delete", {"job": "shop/top"})
    assert (reply.status, reply.body["state"]) == (200, "deleted")
    world.run(40.0)
    assert all(not agent.workers and not agent.masters for agent in world.living)
    assert all(not agent.results for agent in world.living)
    assert world.ask(world[1], "describe", {"job": "shop/top"}).status == 404
    assert world.ask(world[1], "list").body["jobs"] == []


def test_a_stale_announcement_of_a_deleted_job_starts_it_again_at_no_agent_that_has_stopped_it() -> None:
    """Simulator seed 30: the rendezvous had not heard of the end, and a worker was restarted after it."""
    world = World(4)
    fill(world, intervals=2)
    world.apply(world[0])
    terms = world.master().control.leadership.masters[JOB].term.terms
    stale = Announce(terms.manifest, terms.master, terms.epoch, terms.version, terms.start)
    assert world.ask(world[2], "delete", {"job": "shop/top"}).status == 200
    for agent in world.agents.values():
        world.kill(agent)
        world.run(1.0)
        world.restart(agent)
        world.post(0.0, agent, Received(world[0].me, Running("clicks", (stale,)), b""))
        world.run(0.1)
        assert not agent.control.member_host.members
    assert world.apply(world[1]).body["state"] == "new"
    world.run(1.0)
    assert all(agent.workers for agent in world.living)


def test_what_runs_in_an_older_epoch_is_not_begun() -> None:
    world = World(3)
    world.apply(world[0])
    terms = world.master().control.leadership.masters[JOB].term.terms
    stale = Announce(terms.manifest, terms.master, terms.epoch, terms.version, terms.start)
    for _ in range(2):
        world.ask(world[2], "delete", {"job": "shop/top"})
        world.apply(world[2])
    world.ask(world[2], "delete", {"job": "shop/top"})
    world.kill(world[0])
    world.run(1.0)
    world.restart(world[0])
    world.post(0.0, world[0], Received(world[1].me, Running("clicks", (stale,)), b""))
    world.run(0.0)  # before any agent says that it is over
    assert not world[0].control.member_host.members


def test_a_deleted_job_can_be_applied_again_and_begins_a_new_incarnation() -> None:
    world = World(3)
    fill(world, intervals=2)
    world.apply(world[0])
    world.seal_all(BASE + 2 * SLIDE)
    world.run(1.0)
    before = world.ask(world[0], "offsets", {"job": "shop/top"}).body["incarnation"]
    world.ask(world[0], "delete", {"job": "shop/top"})
    assert world.apply(world[1]).body["state"] == "new"
    world.run(1.0)
    assert world.ask(world[0], "offsets", {"job": "shop/top"}).body["incarnation"] != before
    exact(world, world[2])


def renumbered(world: World, seconds: int) -> str:
    """The job's windows get another distance; the name of the new numbering."""
    text = TEXT.replace("'10", f"'{seconds}")
    assert world.apply(world[1], text).body["state"] == "reset"
    world.run(1.0)
    return str(world.ask(world[0], "offsets", {"job": "shop/top"}).body["incarnation"])


def test_the_numbering_before_an_update_is_named_and_can_be_read_to_its_end() -> None:
    world = World(4)
    fill(world, intervals=4)
    world.apply(world[0])
    world.seal_all(BASE + 2 * SLIDE)
    world.run(1.0)
    notified = world.ask(world[2], "offsets", {"job": "shop/top"}).body
    assert "earlier" not in notified
    before, was = world.results(world[2]), notified["incarnation"]
    now = renumbered(world, 5)
    assert now != was
    notified = world.ask(world[2], "offsets", {"job": "shop/top"}).body
    numbering = {"incarnation": was, "first": before[0][0].index, "latest": before[-1][0].index}
    assert notified["earlier"] == (numbering,) or notified["earlier"] == [numbering]
    assert world.results(world[3], incarnation=was) == before
    assert world.results(world[3], incarnation=was, **{"from": before[-1][0].index + 1, "wait": 9}) == []
    other = world.ask(world[3], "results", {"job": "shop/top", "incarnation": "nothing"})
    assert (other.status, other.body["error"]) == (410, "the job has no such numbering of intervals")

    world.kill(world.master())  # what was set aside was there alone; that there was something, all know
    world.run(60.0)
    notified = world.ask(world.living[0], "offsets", {"job": "shop/top"}).body
    assert notified["incarnation"] == now
    assert [*notified["earlier"]] == [numbering]
    assert world.results(world.living[0], incarnation=was) == []

    world.ask(world.living[0], "delete", {"job": "shop/top"})
    world.apply(world.living[0])
    assert "earlier" not in world.ask(world.living[0], "offsets", {"job": "shop/top"}).body
    assert not any(agent.set_aside for agent in world.living)


def test_a_numbering_without_results_is_not_one_to_catch_up_with() -> None:
    world = World(4)
    world.apply(world[0])
    world.run(1.0)
    renumbered(world, 5)
    assert "earlier" not in world.ask(world[2], "offsets", {"job": "shop/top"}).body


def test_the_same_text_again_changes_nothing() -> None:
    world = World(3)
    world.apply(world[0])
    reply = world.apply(world[1], TEXT + "\n")
    assert (reply.body["state"], reply.body["version"], reply.body["acknowledged"]) == ("unchanged", 1, 3)


def late_word(world: World, verb: str, text: str = "") -> Callable[[], None]:
    """Ask, and return what delivers the same word again, as a network may do minutes later."""
    reported: list[tuple[Agent, Received]] = []
    post = world.post

    def noted(delay: float, agent: Agent, event: Event) -> None:
        if isinstance(event, RouteDelivered) and isinstance(message := unpack(event.body), Ask | Submit):
            reported.append((agent, Received(event.origin, message, b"")))
        post(delay, agent, event)

    world.post = noted  # type: ignore[method-assign]  # listens in
    reply = world.apply(world[2], text) if verb == "apply" else world.ask(world[2], verb, {"job": "shop/top"})
    world.post = post  # type: ignore[method-assign]  # listens no longer
    assert reply.status == 200

    def again() -> None:
        for agent, event in reported:
            post(0.0, agent, event)

    return again


def test_late_copies_of_requests_that_were_carried_out_change_nothing() -> None:
    """A network may deliver a frame again minutes later (simulator seeds 27, 171, 178 and 191)."""
    world = World(4)
    applied = late_word(world, "apply", TEXT)
    deleted = late_word(world, "delete")
    applied()
    world.run(5.0)
    assert not any(agent.masters for agent in world.living), "the deleted job is back"
    world.apply(world[0])
    deleted()
    world.run(5.0)
    assert world.master().masters, "the new job is gone"
    paused = late_word(world, "pause")
    world.ask(world[0], "resume", {"job": "shop/top"})
    paused()
    world.run(5.0)
    assert world.ask(world[1], "describe", {"job": "shop/top"}).body["state"] == "running"


def test_late_copies_of_updates_change_nothing() -> None:
    world = World(4)
    world.apply(world[0])
    updated = late_word(world, "apply", TEXT.replace("GROUP BY", "WHERE product <> 'apple' GROUP BY"))
    undone = late_word(world, "undo")
    for again in (updated, undone):
        again()
        world.run(5.0)
        notified = world.ask(world[1], "rollout", {"job": "shop/top"}).body
        assert (notified["version"], notified["replaces"]) == (3, 2)


@pytest.mark.parametrize("verb", ["delete", "pause", "apply", "undo"])
def test_a_late_copy_changes_nothing_at_a_later_master(verb: str) -> None:
    """All that was ever sent arrives again, and the job is led by another (`everything-twice`)."""
    world = World(4)
    changed = TEXT.replace("GROUP BY", "WHERE product <> 'apple' GROUP BY")
    if verb != "apply":
        world.apply(world[0])
    if verb == "undo":
        world.apply(world[0], changed)
    again = late_word(world, verb, TEXT)
    world.add(closer_than(world, JOB), streams={})
    world.run(10.0)
    world.ask(world[0], "resume", {"job": "shop/top"})
    before = world.apply(world[0], changed).body["version"]
    again()
    world.run(5.0)
    notified = world.ask(world[1], "describe", {"job": "shop/top"}).body
    assert (notified["state"], notified["version"]) == ("running", before)


def seen(world: World, client: Agent) -> str:
    return str(world.ask(client, "describe", {"job": "shop/top"}).body["seen"])


def test_a_late_copy_of_a_pause_is_not_obeyed_by_a_successor() -> None:
    world = World(4)
    world.apply(world[0])
    master, successor, *_ = world.closest(JOB)
    client = next(agent for agent in world.living if agent not in (master, successor))
    body = encode_json({"seen": seen(world, client)})
    late = Received(client.me, Ask("pause", JOB, body, client.me, 77), b"")
    world.post(0.0, successor, late)
    world.run(1.0)
    assert world.ask(client, "describe", {"job": "shop/top"}).body["state"] == "paused"
    world.ask(client, "resume", {"job": "shop/top"})
    world.kill(master)
    world.run(20.0)
    assert world.master() is successor
    world.post(0.0, successor, late)
    world.run(5.0)
    assert world.ask(client, "describe", {"job": "shop/top"}).body["state"] == "running"
    assert successor.control.context.stats["control.outdated_requests"] == 1


@pytest.mark.parametrize("verb", ["delete", "pause", "undo", "empty"])
def test_a_request_about_no_job_changes_no_job_that_is_begun_later(verb: str) -> None:
    world = World(4)
    master, client, *_ = world.closest(JOB)
    late = Received(client.me, Ask(verb, JOB, b'{"seen": "?"}', client.me, 77), b"")
    world.post(0.0, master, late)
    world.run(1.0)
    assert world.apply(client).body["state"] == "new"
    assert world.master() is master
    world.post(0.0, master, late)
    world.run(5.0)
    notified = world.ask(client, "describe", {"job": "shop/top"}).body
    assert (notified["state"], notified["version"]) == ("running", 1)


@pytest.mark.parametrize("tag", ["?", f"{JOB.hex()}..0.0"])
def test_an_update_that_was_refused_changes_no_job_that_is_begun_later(tag: str) -> None:
    world = World(4)
    master, client, *_ = world.closest(JOB)
    job, _ = read_job(TEXT, source="query")
    manifest = new_manifest(
        job, TEXT.replace("COUNT(*)", "2 * COUNT(*)"), "local", created=0, incarnation="i", signed=b""
    )
    late = Received(client.me, Submit(manifest, client.me, 77, False, 0, True, seen=tag), b"")
    world.post(0.0, master, late)
    world.run(3.0)
    assert world.apply(client).body["version"] == 1
    world.post(0.0, master, late)
    world.run(5.0)
    assert world.ask(client, "describe", {"job": "shop/top"}).body["version"] == 1


def test_an_update_of_a_job_that_no_agent_can_lead_now_does_not_report_a_missing_job() -> None:
    world = World(6)
    world.apply(world[0])
    master = world.master()
    voting = master.control.leadership.masters[JOB].term.committer.cell.contacts
    for agent in [each for each in world.living if each.me.id in {voter.id for voter in voting}]:
        world.kill(agent)
    world.restart(master)
    world.run(3.0)
    text = TEXT.replace("COUNT(*)", "2 * COUNT(*)")
    reply = world.ask(master, "apply", {"text": text, "job": "shop/top"})
    assert reply.status == 503
    assert "no such job" not in reply.body["error"]


@pytest.mark.parametrize("after_ms", range(0, 3000, 250))
def test_a_change_that_met_the_end_of_a_master_is_made_by_the_next(after_ms: int) -> None:
    """What was passed on in vain is asked for again, within the time of one request."""
    world = World(5)
    world.apply(world[0])
    master, successor, *_ = world.closest(JOB)
    client = next(agent for agent in world.living if agent not in (master, successor))
    world.kill(master)
    world.run(after_ms / 1000)
    for _ in range(5):
        reply = world.ask(client, "pause", {"job": "shop/top"})
        if reply.status != 503:  # "ask again soon"
            break
        world.run(1.0)
    assert (reply.status, reply.body.get("state")) == (200, "paused")
    assert world.ask(client, "describe", {"job": "shop/top"}).body["state"] == "paused"


def test_wrong_text_is_refused_with_its_place() -> None:
    world = World(1)
    reply = world.apply(world[0], "CREATE JOB a.b EVERY '1 s' AS SELECT nope(x) FROM clicks")
    assert reply.status == 400
    assert reply.body["code"] == 65
    assert reply.body["line"] >= 1
    plain = world.apply(world[0], "SELECT count(*) FROM clicks")
    assert plain.status == 400
    assert "CREATE JOB" in plain.body["hint"]
