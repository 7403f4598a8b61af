"""ELF (USENIX ATC 2014), section 2.3 and Figure 6: agents, groups and shared reducer trees."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from hashlib import sha1

import pyarrow as pa
import pytest

from elfmesh import ids
from elfmesh.cbt import (
    CompressedBufferTree,
    decode_partial,
    encode_partial,
    encode_parts,
    finish,
    merge_partials,
)
from elfmesh.machine import Received
from elfmesh.srt import Delivered, Publish, Subscribe
from elfmesh.srt.messages import Multicast
from tests.control.harness import World
from tests.overlay.crowd import Crowd
from tests.paper.cases import CASES
from tests.srt.rig import TREE, Wire, contact


def test_product_bundling_edges() -> None:
    """Figure 6: "(a,<b>) (b,<a>) (a,<c>) (c,<f>) (d,<e>) (d,<g>) (d,<h>) -> (a,<b,c>) (b,<a>) (c,<f>)
    (d,<e,g,h>)".

    Edges are key pairs here, so that the sets merge without ever being one value.
    """
    case = CASES["product_bundling_edges"]
    trees = []
    for part in (case["input"][:3], case["input"][3:], case["input"][::2]):  # one edge is seen twice
        tree = CompressedBufferTree(["from", "to"], {"n": ("count", None)})
        tree.insert(pa.record_batch({"from": [a for a, _ in part], "to": [b for _, b in part]}))
        trees.append(encode_partial({"edges": tree.partial()}))
    adjacency: dict[str, list[str]] = {}
    for row in finish(decode_partial(merge_partials(trees)))["edges"].sort_by("to").to_pylist():
        adjacency.setdefault(row["from"], []).append(row["to"])
    assert adjacency == case["expected"]


def test_the_id_of_an_application_is_a_hash_of_its_name_and_its_creators() -> None:
    """2.3: "The appId is the hash of the application's textual name concatenated with its creator's name.
    The hash is computed using the same collision resistant SHA-1 hash function, ensuring a uniform
    distribution of appIds".
    """
    assert len(ids.job_id("shop/top", "me")) == sha1().digest_size
    assert (
        len({ids.job_id("shop/top", "me"), ids.job_id("shop/top", "you"), ids.job_id("shop/tops", "me")}) == 3
    )
    assert ids.job_id("ab", "c") != ids.job_id("a", "bc"), "where the name ends counts"
    first = Counter(ids.job_id(f"shop/job{number}", "me")[0] >> 4 for number in range(1_600))
    assert len(first) == 16
    assert max(first.values()) < 2 * min(first.values())


def test_a_message_is_routed_to_the_closest_agent_within_log16_hops() -> None:
    """2.3: "it is guaranteed that the message is reliably routed to the node with the nodeId numerically
    closest to that key, within [log 2^b N] hops, where b is a base with typical value 4".
    """
    crowd = Crowd(60, seed=3)
    crowd.network.run_for(10)
    before = crowd.counter("hops")
    keys = [crowd.rng.randbytes(20) for _ in range(60)]
    for key in keys:
        crowd.route(crowd.rng.choice(crowd.alive), key)
    crowd.network.run_for(3)
    assert sorted(delivery.key for _, delivery in crowd.delivered) == sorted(keys)
    assert all(contact.id == crowd.closest(delivery.key) for contact, delivery in crowd.delivered)
    assert (crowd.counter("hops") - before) / len(keys) <= 2, "log16 of 60 is 1.5"


def test_the_rendezvous_node_is_the_jobs_master() -> None:
    """2.3: "their JOIN message will eventually arrive at a rendezvous node, with nodeId numerically close to
    appId. The rendezvous node is set as the job's master".
    """
    world = World(8)
    world.apply(world[0])
    closest = [world.closest(key)[0] for key in ids.job_placements("shop/top", "local")]
    assert world.master() in closest, "one of its two placements"
    assert world.master() is closest[0], "the first, if both lead as many jobs"


@pytest.mark.parametrize("fanout", [2, 3])
def test_each_member_of_a_tree_sends_a_multicast_to_its_own_children_alone(fanout: int) -> None:
    """2.3: "each message is replicated in the internal nodes of the tree, at each level, so that only m
    copies are sent to each internal node's m children, rather than having the tree root broadcast N copies
    to N total nodes".
    """
    agents = range(1, 14)
    wire = Wire(*agents, fanout=fanout)
    for number in agents:
        wire.give(number, Subscribe(TREE))
        wire.deliver()
    for number in agents:
        wire.take(number)
    wire.give(1, Publish(TREE, b"empty", 5.0))
    copies: Counter[int] = Counter()
    received: Counter[int] = Counter()
    while wire.dispatcher:
        for source, to, message, _ in wire.dispatcher:
            if isinstance(message, Multicast):
                copies[source] += 1
                received[to] += 1
        held, wire.dispatcher = wire.dispatcher, type(wire.dispatcher)()
        for source, to, message, payload in held:
            wire.give(to, Received(contact(source), message, payload))
    assert max(copies.values()) <= fanout
    assert received == Counter(dict.fromkeys(agents[1:], 1))
    got = [effect for number in agents for effect in wire.take(number) if isinstance(effect, Delivered)]
    assert len(got) == len(agents)


def test_m_trees_divide_the_keys_into_m_ranges() -> None:
    """2.3: "we build m aggregation trees to divide the keys into m ranges, where each tree is responsible for
    the reduce function of one range, thus avoiding the root overload when aggregating a large key space".
    """
    rng = random.Random(5)
    words = [f"word{rng.randrange(10**6)}" for _ in range(4_000)]
    parts = []
    for agent in (words[:2_000], words[2_000:] + words[:100]):
        tree = CompressedBufferTree(["word"], {"n": ("count", None)})
        tree.insert(pa.record_batch({"word": agent}))
        parts.append(encode_parts({"main": tree.partial()}, 4))
    merged = [merge_partials(list(each)) for each in zip(*parts, strict=True)]
    reduced = [finish(decode_partial(each))["main"] for each in merged]
    keys = [set(table["word"].to_pylist()) for table in reduced]
    assert all(not (one & other) for one, other in itertools.combinations(keys, 2)), "one tree for each key"
    assert set().union(*keys) == set(words)
    assert max(map(len, keys)) < 1.2 * min(map(len, keys))
