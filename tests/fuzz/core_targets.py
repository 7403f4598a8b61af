"""What a peer may say to a whole agent: recorded talk of a working fleet, changed, repeated, out of order.

An input is a script of messages and pauses for a copy of a master's machines, or a member's, in the middle of
their work. Nothing a peer says may raise out of `step`, or make more than so many calls.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from elfmesh.agent.runtime.core import AgentCore, codec
from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact, Event, Received, Tick
from tests.fuzz.copies import in_a_copy
from tests.fuzz.engine import CALLS_MAX, Harness
from tests.fuzz.examples import example
from tests.fuzz.mutate import mutated
from tests.fuzz.wire_targets import packed, repacked
from tests.hostile.cost import calls
from tests.sim.world import vloop
from tests.sim.world.agents import SimFleet, line, wall_us

JOB = """CREATE JOB sim.sums PARTITIONS 2 DEADLINE '2 s' AS SELECT k, count(*) AS n, sum(v) AS s FROM log
GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k ORDER BY k"""
SCRIPTS_MAX = (60, 60, 400)
"""Messages of a script, below one of these: a copy of an agent costs as much as a hundred of them."""
COUNTED_EVERY = 8
"""Scripts of which the calls of each message are counted: it takes three times as long."""
Script = list[tuple[int, bytes, bytes, float]]
"""Number of the sender, header, payload, seconds before it comes."""


class _Scene:
    """Two agents in the middle of a job, and what each of them has heard."""

    def __init__(self) -> None:
        self.received_upto: list[list[tuple[Contact, bytes, bytes]]] = []
        self.cores: list[AgentCore] = []
        self.kept: list[Any] = []
        self.now = 0.0
        self.contacts: list[Contact] = []

    async def play(self) -> None:
        """Five agents run a job with two trees; one dies, and another leads for a while."""
        fleet, rng = SimFleet(11, 5), random.Random(4)
        await fleet.start()
        wire = codec()
        for agent in fleet.agents:
            self.received_upto.append([])
            assert agent.local is not None
            _listen(agent.local.pump, self.received_upto[-1], wire)
        await fleet.apply(JOB)
        for round_ in range(60):
            for agent in fleet.agents:
                agent.log.write(line(wall_us(), rng.choice("abc"), rng.randrange(100)))
            await asyncio.sleep(0.2)
            if round_ == 30:
                fleet.agents[4].crash()
        living = [agent for agent in fleet.agents if agent.local is not None]
        living.sort(key=lambda agent: not agent.local.control.leadership.masters if agent.local else True)
        self.now = asyncio.get_running_loop().time()
        self.contacts = [agent.contact for agent in living]
        for agent in living[:2]:
            assert agent.local is not None
            agent.stopped_us = wall_us()
            self.cores.append(agent.local.core)
            self.kept.append(agent.local)
        self.received_upto = [self.received_upto[agent.number] for agent in living[:2]]


def _listen(pump: Any, received_upto: list[tuple[Contact, bytes, bytes]], wire: Any) -> None:
    received = pump.received

    def note(sender: Contact, message: Any, payload: bytes) -> None:
        received_upto.append((sender, wire.encode(message)[8:], payload))
        received(sender, message, payload)

    pump.received = note


def cores() -> Harness:
    """Scripts of messages for a whole agent."""
    scene, wire = _Scene(), codec()
    vloop.run(scene.play())
    by_kind: list[dict[type[Any], list[tuple[Contact, bytes, bytes]]]] = []
    for received_upto in scene.received_upto:
        kinds: dict[type[Any], list[tuple[Contact, bytes, bytes]]] = {}
        for each in received_upto:
            kinds.setdefault(type(wire.decode_header(each[1])), []).append(each)
        by_kind.append(kinds)
    strangers = (
        Contact(b"\x77" * 20, "10.9.9.9", 1),
        Contact(b"\x01" * 20, "10.0.0.1", 7400, 2**63 - 1),
    )
    senders = (*scene.contacts, *strangers)

    def generate(rng: random.Random) -> bytes:
        who = rng.randrange(len(scene.cores))
        script: Script = []
        for _ in range(rng.randrange(1, rng.choice(SCRIPTS_MAX))):
            if rng.random() < 0.15:
                header, payload = (
                    packed(example(rng, rng.choice(wire.kinds))),
                    rng.randbytes(rng.randrange(30)),
                )
                sender = rng.choice(senders)
            else:
                kinds = by_kind[who]
                sender, header, payload = rng.choice(kinds[rng.choice(list(kinds))])
                if rng.random() < 0.7:
                    header = repacked(rng, msgspec.msgpack.decode(header))
                if rng.random() < 0.15:
                    payload = mutated(rng, payload)
                if rng.random() < 0.15:
                    sender = rng.choice(senders)
            number = senders.index(sender) if sender in senders else 0
            script.append((number, header, payload, rng.choice((0.0, 0.0, 0.001, 0.2, 3.0, 40.0))))
        return msgspec.msgpack.encode((who, script))

    def play(data: bytes) -> None:
        who, script = msgspec.msgpack.decode(data, type=tuple[int, Script])
        core, now = scene.cores[who], scene.now
        for number, header, payload, pause in script:
            now += pause
            events: list[Event] = [Tick()] if pause else []
            with suppress(ProtocolError):  # then no such message reaches a machine
                events.append(Received(senders[number], wire.decode_header(header), payload))
            for event in events:
                if len(data) % COUNTED_EVERY:
                    core.step(event, now)
                    continue
                made = calls(partial(core.step, event, now))
                assert made < CALLS_MAX, f"{event!r} made {made} calls"
        core.step(Tick(), now + 100.0)

    def run(data: bytes) -> None:
        in_a_copy(lambda: play(data))

    def count(data: bytes) -> int:
        return len(msgspec.msgpack.decode(data)[1])

    about = "scripts of messages for a whole agent"
    return Harness("cores", about, generate, run, refusals=(), count=count)
