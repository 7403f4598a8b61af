"""Answers to look-ups of this agent that are a moment old, and what they prove about other keys.

A look-up returns the agents closest to one key. By the XOR metric it shows as well which agents are closest
to the keys beside that one, or to all keys if it has found the whole overlay. So an agent that has to know
about many keys needs few look-ups. Sends nothing.

Invariants: an answer proves that an agent is the closest to another key only if it contains each agent that
may be closer. No answer is used to a look-up that began before the siblings of this agent changed, or that
names an agent which does not acknowledge any more.
"""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.ids import ID_BITS
from elfmesh.machine import Contact

ANSWERS_MAX = 256
"""Maximum number of answers that are remembered."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What a look-up has found.

    Attributes:
        at: when it ended.
        generation: see `Vicinity`; when it began.
        key: its key.
        reach: the contacts have each agent whose distance from the key is smaller. It is longer than each
            distance if the contacts are the whole overlay.
        contacts: agents that answered, with this one, closest first.
    """

    at: float
    generation: int
    key: int
    reach: int
    contacts: tuple[Contact, ...]

    def closest(self, key: int, certain: int) -> tuple[Contact, ...]:
        """Return the `certain` agents closest to a key, or all if there are not more; () if none is certain.

        An agent whose distance from `key` has fewer bits than `reach`, as the distance between both keys has,
        is closer to the other key than `reach`.
        """
        ordered = sorted(self.contacts, key=lambda each: int.from_bytes(each.id) ^ key)[:certain]
        if not ordered or key == self.key:
            return tuple(ordered)
        apart = int.from_bytes(ordered[-1].id) ^ key | key ^ self.key
        enough = len(ordered) == certain or self.reach >> ID_BITS
        return tuple(ordered) if enough and apart.bit_length() < self.reach.bit_length() else ()


class Vicinity:
    """Remembers the answers to look-ups.

    Attributes:
        generation: how often the siblings of this agent have changed.
    """

    def __init__(self) -> None:
        self._answers: dict[int, Proof] = {}  # by key, oldest first
        self.generation = 0

    def keep(self, answer: Proof) -> None:
        """Remember an answer instead of an earlier one for the same key."""
        if answer.generation == self.generation:
            self._answers.pop(answer.key, None)
            self._answers[answer.key] = answer
            if len(self._answers) > ANSWERS_MAX:
                del self._answers[next(iter(self._answers))]

    def changed(self) -> None:
        """The siblings have changed: an answer may lack an agent that is closer."""
        self.generation += 1
        self._answers.clear()

    def lost(self, agent: bytes) -> None:
        """An agent does not acknowledge."""
        named = [key for key, each in self._answers.items() if any(one.id == agent for one in each.contacts)]
        for key in named:
            del self._answers[key]

    def around(
        self, key: int, now: float, within_s: float, certain: int = 1
    ) -> tuple[float, tuple[Contact, ...]] | None:
        """Return the `certain` agents closest to a key and when that was found; None if it is not known.

        The time plus `within_s` is after `now`, as floats are added, so a timer of that time is not due at
        once.

        Cost: O(answers of the last `within_s`).
        """
        own = self._answers.get(key)
        for answer in (*(() if own is None else (own,)), *reversed(self._answers.values())):
            if answer.at + within_s <= now:
                if answer is own:
                    continue
                return None
            if found := answer.closest(key, certain):
                return answer.at, found
        return None
