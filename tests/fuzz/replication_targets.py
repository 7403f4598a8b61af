"""Planned replication: topologies that people write, and chains of open panes that other agents send."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from elfmesh.control.planning.fidelity import fidelity
from elfmesh.control.planning.planner import plan
from elfmesh.control.planning.topology_text import read_topology, topology_values
from elfmesh.control.protocol.messages_standby import Delta, PaneDelta, Prefix
from tests.control.member import test_pane_store as standby
from tests.control.register.support import JOB
from tests.control.replicas import test_prefix_store as master
from tests.fuzz.engine import DEAR, Harness
from tests.fuzz.mutate import BYTES, NUMBERS, changed, mutated

PLANNED_MAX = 12
"""Tasks of the topologies that are planned."""

EXAMPLES = [
    json.dumps(
        {
            "operators": [
                {
                    "name": "O1",
                    "tasks": [{"name": "t1", "rate": 3.0, "cost": 2}, {"name": "t2", "rate": 1.5}],
                },
                {"name": "O2", "tasks": [{"name": "u1", "domains": ["rack=r1"]}, {"name": "u2"}]},
                {
                    "name": "O3",
                    "inputs": [
                        {"from": "O1", "partitioning": "one-to-one"},
                        {"from": "O2", "partitioning": "full"},
                    ],
                    "correlated": True,
                    "selectivity": 0.5,
                    "tasks": [{"name": "v1"}, {"name": "v2"}],
                },
            ],
            "edges": [["t1", "v1", 3.0], ["t2", "v2", 0]],
            "sink": "O3",
        }
    ).encode(),
    b'{"operators": [{"name": "A", "tasks": [{"name": "a"}, {"name": "b"}]}, {"name": "B", "inputs":'
    b' [{"from": "A", "partitioning": "merge"}], "tasks": [{"name": "c", "rate": 0}]}]}',
]
WORDS = tuple(
    word.encode()
    for word in (
        *('"sink": ', '"edges": [["t1", "v1", 1]], ', '"from": "O3"', '"split"', '"merge"', '"rate": -1'),
        *("1e308", "1e-308", "NaN", "true", "null", "[]", '"O1"', '"t1"'),
    )
)

VALUES: tuple[Any, ...] = (
    *NUMBERS,
    0.5,
    1e308,
    -1.0,
    None,
    True,
    "",
    "O1",
    "t1",
    "full",
    "split",
    "merge",
    [],
    {},
)
"""Values that take the place of others."""


def topologies() -> Harness:
    """JSON to a topology, which is written and read again, and planned if it is small."""

    def generate(rng: random.Random) -> bytes:
        example = rng.choice(EXAMPLES)
        if rng.random() < 0.5:
            return mutated(rng, example, (*BYTES, *WORDS))
        return json.dumps(changed(rng, json.loads(example), VALUES)).encode()

    def run(data: bytes) -> None:
        topology = read_topology(data.decode(errors="replace"), "f.json")
        again = read_topology(json.dumps(topology_values(topology)), "again.json")
        assert topology_values(again) == topology_values(topology)
        assert 0.0 <= fidelity(topology, range(0, len(topology), 2)) <= 1.0 + 1e-9
        if len(topology) <= PLANNED_MAX:
            found = plan(topology, 2)
            assert found.used <= 2
            assert 0.0 <= found.fidelity <= found.bound <= 1.0

    return Harness("topologies", "topologies", generate, run, DEAR, calls_per_byte=400.0)


STEP_BYTES = 5


def _deltas(data: bytes, member: bytes, job: bytes) -> Iterator[tuple[Delta, bytes]]:
    """Deltas of some chains in any order; some state false sizes, counts or times."""
    for at in range(0, len(data) - STEP_BYTES + 1, STEP_BYTES):
        place, seq, pane, count, odd = data[at : at + STEP_BYTES]
        panes = tuple(
            PaneDelta(1, each, count, place % 3, 1 + (odd == each)) for each in (pane % 4, count % 4)
        )
        until_us = 2**62 if odd == 255 else 10_000_000 * (pane % 4 + seq % 8)
        delta = Delta(job, "i", member, 1 + place % 2, 1 + place // 2 % 3, seq % 8, odd % 3, until_us, panes)
        yield delta, b"x" * len(panes)


def _sound(delta: Delta) -> bool:
    return all(each.size == 1 for each in delta.panes) and len({each.pane for each in delta.panes}) == 2


def chains() -> Harness:
    """Deltas at a standby and at a master, against what the accepted ones of each chain add up to."""

    def generate(rng: random.Random) -> bytes:
        ordered = b"".join(bytes((0, seq, rng.randrange(4), rng.randrange(1, 9), 9)) for seq in range(8))
        return mutated(rng, rng.randbytes(STEP_BYTES * rng.randrange(12)) + ordered)

    def run(data: bytes) -> None:
        _at_standby(data)
        _at_master(data)

    return Harness("chains", "chains of open panes", generate, run, DEAR, calls_per_byte=2000.0)


def _at_standby(data: bytes) -> None:
    rig = standby.Rig()
    for delta, payload in _deltas(data, standby.A.id, JOB):
        refused = rig.context.stats["control.malformed"]
        rig.send(delta, payload)
        assert (rig.context.stats["control.malformed"] > refused) != _sound(delta)
    for answer in rig.surrender():
        assert len({(boot, chain) for boot, chain, _ in answer}) == 1
        assert [seq for _, _, seq in answer] == list(range(len(answer)))
    assert 0 <= rig.store.nbytes <= rig.store.limit_bytes
    rig.store.stopped(JOB, "i")
    assert not rig.store.nbytes


def _at_master(data: bytes) -> None:
    rig = master.Rig()
    member = rig.members[0].contact.id
    accepted: dict[tuple[int, int], list[Delta]] = {}
    for delta, payload in _deltas(data, member, rig.job):
        chain = accepted.setdefault((delta.boot, delta.chain), [])
        follows = _sound(delta) and delta.seq == len(chain)
        assert bool(rig.store.take(Prefix(3, rig.job, (delta,)), payload)) == follows
        if follows:
            chain.append(delta)
    for interval in range(4):
        sums = [
            sum(each.contributed + each.filtered for delta in chain if delta.first <= interval
                for each in delta.panes if each.pane == interval)
            for chain in accepted.values()
        ]  # fmt: skip
        found = [each.records for each in rig.store.included(interval, 0b111)]
        assert found == ([max(sums)] if any(sums) else [])
    rig.store.drop_below(2**40)
    assert not rig.store.nbytes
