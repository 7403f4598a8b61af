from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from elfmesh.machine import Contact, Received, Send, Tick
from elfmesh.overlay import Lookup as LookupKey
from elfmesh.overlay import Overlay, Start
from elfmesh.overlay.lookup import ASKED_MAX, SHARED_S, Lookup
from elfmesh.overlay.messages import Find, Found, Ping
from tests.overlay.crowd import Crowd
from tests.sim.world.network import Faults

ME = Contact(b"\x00" * 20, "me", 1)


def contact(n: int) -> Contact:
    return Contact(n.to_bytes(20), "h", 1)


def test_at_most_alpha_requests_are_out_and_an_answer_frees_one_place_without_a_round() -> None:
    search = Lookup(0, ME, [contact(n) for n in range(1, 9)], k=8, alpha=3)
    first = search.next()
    assert [int.from_bytes(c.id) for c in first] == [1, 2, 3]
    assert search.next() == []
    search.answered(first[1], [])
    assert [int.from_bytes(c.id) for c in search.next()] == [4]
    search.stalled(first[0])
    assert [int.from_bytes(c.id) for c in search.next()] == [5]
    assert not search.done


def test_a_search_waits_for_the_second_request_to_a_slow_agent() -> None:
    search = Lookup(0, ME, [contact(1)], k=8)
    (slow,) = search.next()
    search.stalled(slow)
    before = search.done
    search.answered(slow, [])
    search.failed(slow)  # the other copy of the second request
    assert (before, search.done) == (False, True)
    assert search.result == (ME, slow)


@given(
    st.sets(st.integers(1, 1 << 159), min_size=1, max_size=40),
    st.data(),
    st.integers(1, 8),
)
def test_only_agents_that_answered_are_returned_and_they_are_the_closest_living(
    ids: set[int], data: st.DataObject, k: int
) -> None:
    world = sorted(ids)
    dead = set(data.draw(st.lists(st.sampled_from(world), unique=True)))
    key = data.draw(st.integers(0, 1 << 159))
    search = Lookup(key, ME, [contact(n) for n in world[:3]], k=k)
    while not search.done:
        for asked in search.next():
            if int.from_bytes(asked.id) in dead:
                search.stalled(asked)
                search.failed(asked)
            else:
                search.answered(asked, [contact(n) for n in world])
    answered = [int.from_bytes(c.id) for c in search.result]
    assert not dead & set(answered)
    if set(world[:3]) - dead:
        living = sorted({0, *world} - dead, key=lambda n: n ^ key)
        assert answered == living[:k]


def test_a_liar_that_invents_ever_closer_agents_is_asked_a_bounded_number_of_times() -> None:
    search = Lookup(0, contact(1 << 158), [contact(1 << 157)])
    invented = 1 << 156
    while not search.done:
        for asked in search.next():
            if asked.id == contact(1 << 157).id:
                search.answered(asked, [contact(invented)])
            else:
                invented -= 1
                search.answered(asked, [contact(invented - n) for n in range(16)])
    assert search.asked == ASKED_MAX


def test_look_ups_find_the_true_closest_agents_from_anywhere() -> None:
    crowd = Crowd(60)
    crowd.network.run_for(10)
    for key, found in crowd.look_ups(60):
        n = int.from_bytes(key)
        truth = sorted(crowd.alive, key=lambda id: int.from_bytes(id) ^ n)
        assert [c.id for c in found] == truth[:8]


def test_after_a_fifth_has_died_no_look_up_returns_a_dead_agent_and_the_closest_is_found() -> None:
    crowd = Crowd(60, seed=2)
    crowd.network.run_for(5)
    crowd.kill(12)
    for key, found in crowd.look_ups(60, wait_s=8):
        assert {c.id for c in found} <= set(crowd.alive)
        assert found[0].id == crowd.closest(key)


def test_look_ups_survive_loss_doubles_and_reordering() -> None:
    crowd = Crowd(50, seed=4, faults=Faults(loss=0.1, duplicate=0.2, reorder=0.2))
    crowd.network.run_for(15)
    assert len(crowd.joined) == 50
    results = crowd.look_ups(100, wait_s=8)
    right = sum(found[0].id == crowd.closest(key) for key, found in results)
    assert right >= 97, "0.7 % of look-ups lose all three requests to the closest agent"


def test_one_agent_alone_finds_itself() -> None:
    crowd = Crowd(1)
    ((_, found),) = crowd.look_ups(1)
    assert [c.id for c in found] == crowd.alive


def sharing(crowd: Crowd, source: bytes, keys: list[bytes]) -> list[bytes]:
    """Look up keys at once, of which each may take the answer to another; returns whom they found."""
    tokens = range(1000, 1000 + len(keys))
    for token, key in zip(tokens, keys, strict=True):
        crowd.network.give(source, LookupKey(key, token, 5.0))
    crowd.network.run_for(0.5)
    return [crowd.found[token][0].id for token in tokens]


def test_one_look_up_that_finds_the_whole_overlay_answers_for_all_keys() -> None:
    crowd = Crowd(8)
    crowd.network.run_for(5)
    keys = [crowd.rng.randbytes(20) for _ in range(50)]
    for _ in range(2):
        before = crowd.counter("finds")
        assert sharing(crowd, crowd.alive[0], keys) == [crowd.closest(key) for key in keys]
        assert crowd.counter("finds") - before in (0, 7)
    crowd.network.run_for(5)
    before = crowd.counter("finds")
    sharing(crowd, crowd.alive[0], keys)
    assert crowd.counter("finds") > before, "the answer is too old"


def test_few_look_ups_answer_for_the_keys_around_an_agent() -> None:
    crowd = Crowd(100)
    crowd.network.run_for(10)
    source = crowd.alive[0]
    keys = [crowd.rng.randbytes(20) for _ in range(5000)]
    own = [key for key in keys if crowd.closest(key) == source]
    before = crowd.counter("finds")
    assert set(sharing(crowd, source, own)) == {source}
    assert len(own) > 20
    assert (crowd.counter("finds") - before) / len(own) < 4, "each would take eight or more"


def test_a_newcomer_that_is_closer_is_found_although_the_last_answer_is_young() -> None:
    crowd = Crowd(8)
    crowd.network.run_for(5)
    source, keys = crowd.alive[0], [crowd.rng.randbytes(20) for _ in range(200)]
    sharing(crowd, source, keys)
    newcomer = crowd.join(8).id
    crowd.network.run_for(1)
    found = sharing(crowd, source, keys)
    assert newcomer in found
    assert found == [crowd.closest(key) for key in keys]


def test_a_key_does_not_wait_long_for_the_look_up_of_another() -> None:
    overlay, peer = Overlay(ME, rng=random.Random(1)), contact(1 << 159)
    overlay.step(Start(), 0.0)
    overlay.step(Received(peer, Ping(1)), 0.0)
    sent = overlay.step(LookupKey(contact(1).id, 1, 5.0), 0.0)
    (find,) = [e.message for e in sent if isinstance(e, Send) and isinstance(e.message, Find)]
    silent = tuple(contact(n) for n in range(100, 130))
    overlay.step(Received(peer, Found(find.rid, silent)), 0.0)
    assert overlay.step(LookupKey(contact(2).id, 2, 5.0), 0.0) == []
    now, keys = 0.0, list[bytes]()
    while contact(2).id not in keys and now < 10:
        assert overlay.deadline is not None
        now = max(now, overlay.deadline)
        finds = [e.message for e in overlay.step(Tick(), now) if isinstance(e, Send)]
        keys += [message.key for message in finds if isinstance(message, Find)]
    assert now == SHARED_S
    assert contact(1).id in keys, "that look-up goes on"
