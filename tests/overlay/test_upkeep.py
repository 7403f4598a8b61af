"""What an agent does when nothing happens: one small thing a second, in turn."""

from __future__ import annotations

import random
from typing import Any

import pytest

from elfmesh.machine import Contact, Send
from elfmesh.overlay.context import Context
from elfmesh.overlay.messages import Ping
from elfmesh.overlay.table import Peer, Table
from elfmesh.overlay.upkeep import EXCHANGE_EVERY, PROBE_S, REFRESH_EVERY, REVIVE_EVERY, Upkeep


def contact(number: int) -> Contact:
    return Contact(bytes([number]) * 20, f"10.0.0.{number}", 7400, 1, "")


class Members:
    """Knows the buried."""

    def __init__(self) -> None:
        self.buried: list[Contact] = []
        self.sweeps = 0

    def sweep(self) -> None:
        self.sweeps += 1

    def graves(self) -> list[Contact]:
        return self.buried


class Joiner:
    """Remembers what it was asked for."""

    def __init__(self) -> None:
        self.joined = True
        self.seeds: list[tuple[str, int]] = []
        self.did: list[str] = []

    def fetch_rows(self, _contact: Contact) -> None:
        self.did.append("rows")

    def refresh(self, _row: int) -> None:
        self.did.append("refresh")

    def unmet(self, *, all_lost: bool) -> list[tuple[str, int]]:
        return self.seeds

    def meet(self, _seed: tuple[str, int]) -> None:
        self.did.append("meet")


class Agent:
    """One with so many contacts, on a clock that a test moves."""

    def __init__(self, contacts: int) -> None:
        me = contact(100)
        self.context = Context(me, random.Random(1), Table(me))
        self.context.now = 0.0
        self.members: Any = Members()
        self.joiner: Any = Joiner()
        for number in range(1, contacts + 1):
            self.context.table.add(Peer(contact(number)))
        self.upkeep = Upkeep(self.context, self.members, None, self.joiner)  # type: ignore[arg-type]  # it asks for no transport
        self.upkeep.start()

    def beat(self) -> list[str]:
        """What one beat does: "ping N" or what the joiner was asked for."""
        self.context.out.clear()
        self.joiner.did.clear()
        self.context.now += PROBE_S
        self.upkeep._tick()
        sent = [each for each in self.context.out if isinstance(each, Send)]
        pings = [each.to.id[0] for each in sent if isinstance(each.message, Ping)]
        return [*self.joiner.did, *(f"ping {number}" for number in pings)]


def test_each_contact_is_pinged_in_turn_and_every_fifth_beat_fetches_rows() -> None:
    agent = Agent(4)
    agent.context.now = 10.0
    beats = [agent.beat() for _ in range(25)]
    assert [at for at, did in enumerate(beats, 1) if "rows" in did] == [5, 10, 15, 20, 25]
    pinged = [each[0] for each in beats if each != ["rows"]]
    assert [sorted(pinged[at : at + 4]) for at in range(0, 20, 4)] == [
        [f"ping {number}" for number in range(1, 5)]
    ] * 5
    assert agent.members.sweeps == 25


def test_a_contact_that_spoke_lately_needs_no_ping() -> None:
    agent = Agent(2)
    agent.context.now = 10.0
    agent.context.table.entries[int.from_bytes(contact(1).id)].received = 9.0
    assert {tuple(agent.beat()) for _ in range(2)} <= {("ping 2",), ()}


@pytest.mark.parametrize(
    ("buried", "seeds", "expected"),
    [([7], [], "ping 7"), ([], [("h", 1)], "meet"), ([], [], "")],
)
def test_every_seventh_beat_knocks_at_a_door_that_was_shut(
    buried: list[int], seeds: list[tuple[str, int]], expected: str
) -> None:
    agent = Agent(1)
    agent.members.buried = [contact(number) for number in buried]
    agent.joiner.seeds = seeds
    beats = [agent.beat() for _ in range(2 * REVIVE_EVERY)]
    knocked = [at for at, did in enumerate(beats, 1) if expected in did]
    assert knocked == ([REVIVE_EVERY, 2 * REVIVE_EVERY] if expected else [])


def test_an_agent_that_lost_all_knocks_at_every_beat() -> None:
    agent = Agent(0)
    agent.joiner.seeds = [("h", 1)]
    assert [agent.beat() for _ in range(3)] == [["meet"]] * 3


def test_before_it_has_joined_it_only_pings() -> None:
    agent = Agent(1)
    agent.joiner.joined = False
    agent.joiner.seeds = [("h", 1)]
    did = [each for _ in range(REFRESH_EVERY) for each in agent.beat()]
    assert set(did) == {"ping 1"}
    assert EXCHANGE_EVERY < REFRESH_EVERY
