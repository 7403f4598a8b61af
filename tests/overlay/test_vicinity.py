"""What answers to look-ups prove about other keys; an id is one byte before zeros."""

from __future__ import annotations

import random
from itertools import product

from elfmesh.ids import ID_BITS
from elfmesh.machine import Contact
from elfmesh.overlay.vicinity import ANSWERS_MAX, Proof, Vicinity

WHOLE = 1 << ID_BITS
KEPT_S = 5.0


def place(first: int) -> int:
    return first << ID_BITS - 8


def agents(*firsts: int) -> tuple[Contact, ...]:
    return tuple(Contact(bytes([first]) + bytes(19), "host", 1) for first in firsts)


def answer(key: int, *found: int, reach: int, at: float = 0.0, generation: int = 0) -> Proof:
    return Proof(at, generation, place(key), reach, agents(*found))


def around(vicinity: Vicinity, key: int, now: float = 0.0, certain: int = 1) -> list[int] | None:
    found = vicinity.around(place(key), now, KEPT_S, certain)
    return None if found is None else [each.id[0] for each in found[1]]


def test_an_answer_is_used_for_another_key_only_if_no_closer_agent_can_be_missing() -> None:
    used = 0
    for seed, certain in product(range(40), (1, 2, 3)):
        rng = random.Random(seed)
        fleet, key = rng.sample(range(64), 12), rng.randrange(64)
        nearest = sorted(fleet, key=lambda other: other ^ key)[:5]
        vicinity = Vicinity()
        vicinity.keep(answer(key, *nearest, reach=place(nearest[-1] ^ key)))
        for other in range(64):
            found = around(vicinity, other, certain=certain)
            if found is not None:
                used += other != key
                assert found == sorted(fleet, key=lambda agent: agent ^ other)[:certain]
    assert used > 200


def test_the_answer_that_has_the_whole_overlay_is_one_for_each_key() -> None:
    vicinity = Vicinity()
    vicinity.keep(answer(0x41, 0x40, 0x80, 0xC0, reach=WHOLE))
    for key in range(256):
        ordered = sorted((0x40, 0x80, 0xC0), key=lambda agent: agent ^ key)
        assert around(vicinity, key) == ordered[:1]
        assert around(vicinity, key, certain=8) == ordered, "there are no others"


def test_an_answer_is_over_when_the_timer_that_it_set_is_due() -> None:
    rng = random.Random(5)
    for _ in range(1000):
        vicinity, at = Vicinity(), rng.uniform(0, 1e5)
        vicinity.keep(answer(0x41, 0x40, reach=WHOLE, at=at))
        assert vicinity.around(place(0x41), at, KEPT_S) == (at, agents(0x40))
        assert vicinity.around(place(0x41), at + KEPT_S, KEPT_S) is None


def test_a_later_answer_for_a_key_counts() -> None:
    vicinity = Vicinity()
    vicinity.keep(answer(0x41, 0x40, reach=WHOLE))
    vicinity.keep(answer(0x41, 0x42, reach=WHOLE, at=1.0))
    assert vicinity.around(place(0x41), 1.0, KEPT_S) == (1.0, agents(0x42))


def test_no_answer_from_before_a_change_of_the_siblings_is_used() -> None:
    vicinity = Vicinity()
    vicinity.keep(answer(0x41, 0x40, reach=WHOLE))
    vicinity.changed()
    assert around(vicinity, 0x41) is None
    vicinity.keep(answer(0x41, 0x40, reach=WHOLE))
    assert around(vicinity, 0x41) is None, "its look-up began before the change"
    vicinity.keep(answer(0x41, 0x40, reach=WHOLE, generation=1))
    assert around(vicinity, 0x41) == [0x40]


def test_no_answer_is_used_that_names_a_lost_agent() -> None:
    vicinity = Vicinity()
    vicinity.keep(answer(0x41, 0x40, 0x42, reach=WHOLE))
    vicinity.keep(answer(0x81, 0x80, reach=place(1)))
    vicinity.lost(agents(0x42)[0].id)
    assert around(vicinity, 0x41) is None
    assert around(vicinity, 0x81) == [0x80]


def test_the_number_of_answers_is_bounded() -> None:
    vicinity = Vicinity()
    for number in range(2 * ANSWERS_MAX):
        vicinity.keep(Proof(0.0, 0, number, 1, agents(0x40)))
    assert [vicinity.around(n, 0.0, KEPT_S) is None for n in (ANSWERS_MAX - 1, ANSWERS_MAX)] == [True, False]
