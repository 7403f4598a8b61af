from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elfmesh.machine import Contact
from elfmesh.overlay.lookup import ASKED_MAX, Lookup
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
