"""Algorithm 6 on an example that is computed by hand, and what it keeps in any case."""

from __future__ import annotations

import random

import pytest

from elfmesh.control.planning.deployment import Flow, Network, PlacedStage, Server
from elfmesh.control.planning.pruning import Replica, ReplicaStream, pruned, streams_of, utilities

S, A, B, T = ("source", "s"), ("union", "a"), ("union", "b"), ("reader", "t")
INTO_A, INTO_B = ReplicaStream(S, A, 1.0, 4.0), ReplicaStream(S, B, 5.0, 4.0)
OUT_OF_A, OUT_OF_B = ReplicaStream(A, T, 1.0, 4.0), ReplicaStream(B, T, 5.0, 2.0)
TWO = (INTO_A, INTO_B, OUT_OF_A, OUT_OF_B)
"""The reader gets each record from a first, and from b second: weights 1 and 1/2 for each of four records."""


def test_a_stream_has_its_share_of_the_utility_of_what_it_feeds() -> None:
    """V-B: 1 for an application, else the sum over the outputs."""
    found = utilities(TWO)
    assert found == pytest.approx({OUT_OF_A: 2 / 3, OUT_OF_B: 1 / 3, INTO_A: 2 / 3, INTO_B: 1 / 3})


def test_streams_without_weights_have_equal_shares() -> None:
    found = utilities([ReplicaStream(A, T, 1.0), ReplicaStream(B, T, 1.0)])
    assert set(found.values()) == {0.5}


def test_the_group_with_the_least_utility_for_its_cost_goes_first() -> None:
    """The streams of b go together: utility 2/3 for a cost of 10; those of a have 4/3 for 2."""
    found = pruned(TWO, 11.0, 1)
    assert [set(each) for each in found.discarded] == [{INTO_B, OUT_OF_B}]
    assert (set(found.kept), found.reached) == ({INTO_A, OUT_OF_A}, True)
    assert pruned(TWO, 12.0, 1).discarded == ()


def test_no_operator_has_fewer_replicas_than_are_kept_and_no_reader_loses_its_last_input() -> None:
    for kept_min, left in ((2, 4), (1, 2), (0, 2)):
        found = pruned(TWO, 0.0, kept_min)
        assert (len(found.kept), found.reached) == (left, False)


def test_a_replica_that_lacks_one_of_two_inputs_is_useless() -> None:
    other = ("other", "s")
    streams = [*TWO, ReplicaStream(other, A, 1.0, 1.0), ReplicaStream(other, B, 9.0, 1.0)]
    found = pruned(streams, 21.0, 1)
    assert [set(each) for each in found.discarded] == [{INTO_B, OUT_OF_B, ReplicaStream(other, B, 9.0, 1.0)}]


def drawn(rng: random.Random, replicas: int) -> tuple[ReplicaStream, ...]:
    names = [f"s{n}" for n in range(6)]
    latency = {(one, other): rng.random() for one in names for other in names}
    stages = (
        PlacedStage("in", at=("s0",)),
        PlacedStage("one"),
        PlacedStage("two"),
        PlacedStage("out", at=("s1",)),
    )
    flows = (Flow("in", "one", 3.0), Flow("one", "two", 2.0), Flow("two", "out", 1.0))
    network = Network(tuple(map(Server, names)), stages, flows, latency)
    places: dict[str, tuple[str, ...]] = {"in": ("s0",), "out": ("s1",)}
    places |= {stage: tuple(rng.sample(names, replicas)) for stage in ("one", "two")}
    weights: dict[tuple[Replica, Replica], float] = {}
    for each in streams_of(network, places, {}):
        weights[each.source, each.destination] = rng.random()
    return streams_of(network, places, weights)


@pytest.mark.parametrize("kept_min", [1, 2])
@pytest.mark.parametrize("seed", range(10))
def test_what_is_left_keeps_every_stage_and_is_connected(seed: int, kept_min: int) -> None:
    rng = random.Random(seed)
    streams = drawn(rng, 3)
    limit = rng.uniform(0, sum(each.cost for each in streams))
    found = pruned(streams, limit, kept_min)
    assert {*found.kept, *(each for group in found.discarded for each in group)} == {*streams}
    assert found.reached == (sum(each.cost for each in found.kept) <= limit)
    into = {each.destination for each in found.kept}
    out_of = {each.source for each in found.kept}
    for stage in ("one", "two"):
        assert len({each for each in into if each[0] == stage}) >= kept_min
        assert {each for each in into if each[0] == stage} == {each for each in out_of if each[0] == stage}
