"""Algorithm 5 on an example that is computed by hand, and its improvement against all deployments."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations, pairwise, product
from statistics import quantiles

import pytest

from elfmesh.control.planning.deployment import (
    Deployment,
    Flow,
    Network,
    PlacedStage,
    Server,
    cost_at,
    deployed,
    improved,
    total_cost,
)

AT = {"a": 0.0, "b": 10.0, "c": 20.0, "d": 40.0}
LINE = Network(
    tuple(map(Server, AT)),
    (PlacedStage("source", at=("a",)), PlacedStage("union", 0.6), PlacedStage("reader", at=("d",))),
    (Flow("source", "union", 2.0), Flow("union", "reader", 1.0)),
    {(one, other): abs(x - y) for one, x in AT.items() for other, y in AT.items()},
    busy=0.7,
    apart_s=15.0,
)
"""Servers on a line. A replica at x costs 2 x + |40 - x|: 40 at a, 50 at b, 60 at c and 80 at d."""


def test_the_cost_of_a_replica_is_rate_times_latency_to_all_replicas_around_it() -> None:
    """ "cost(S) is in turn defined as rate(S) · latency(S)" (V-A)."""
    places = {"source": ("a",), "union": (), "reader": ("d",)}
    assert [cost_at(LINE, places, "union", each) for each in AT] == [40, 50, 60, 80]


def test_each_phase_takes_the_cheapest_server_that_is_far_enough_from_the_others() -> None:
    """b would be cheaper than c, but is 10 from a; then c is 20 from a, and d is 20 from c."""
    assert deployed(LINE, 1).places["union"] == ("a",)
    assert deployed(LINE, 2).places["union"] == ("a", "c")
    found = deployed(LINE, 3)
    assert (found.places["union"], found.notes) == (("a", "c", "d"), ())
    assert total_cost(LINE, found.places) == 40 + 60 + 80


def test_in_the_first_phase_only_streams_count_whose_other_end_is_placed_and_loads_add_up() -> None:
    """The union costs nothing at a, and the join behind it costs 40 everywhere; a has no room for both."""
    two = replace(
        LINE,
        stages=(*LINE.stages[:2], PlacedStage("join", 0.6), LINE.stages[2]),
        flows=(LINE.flows[0], Flow("union", "join", 1.0), Flow("join", "reader", 1.0)),
    )
    assert deployed(two, 1).places == {"source": ("a",), "union": ("a",), "join": ("b",), "reader": ("d",)}


def test_another_domain_comes_before_latency_and_requirements_are_dropped_with_a_note() -> None:
    labelled = tuple(replace(each, domain="eu" if each.name in "ab" else "us") for each in LINE.servers)
    network = replace(LINE, servers=labelled)
    assert deployed(network, 2).places["union"] == ("a", "c")
    found = deployed(network, 3)
    assert found.places["union"] == ("a", "c", "d")
    assert found.notes == ("union: no server is another domain and far away, but far away",)
    near = deployed(replace(LINE, apart_s=100.0), 2)
    assert near.places["union"] == ("a", "b")
    assert near.notes == ("union: no server is far away, but another server",)


def test_an_operator_has_fewer_replicas_if_no_server_has_room() -> None:
    full = replace(LINE, servers=(Server("a"), Server("b", 0.1), Server("c", 0.1), Server("d", 0.1)))
    found = deployed(full, 2)
    assert (found.places["union"], found.notes) == (("a",), ("union: no other server has room",))


def drawn(rng: random.Random) -> Network:
    """Seven servers in the plane, three operators in a row."""
    points = {f"s{n}": (rng.random(), rng.random()) for n in range(7)}
    latency = {
        (one, other): ((x - u) ** 2 + (y - v) ** 2) ** 0.5
        for one, (x, y) in points.items()
        for other, (u, v) in points.items()
    }
    names = ("in", "one", "two", "three", "out")
    ends = rng.sample(sorted(points), 2)
    stages = (
        PlacedStage("in", at=(ends[0],)),
        *map(PlacedStage, names[1:4]),
        PlacedStage("out", at=(ends[1],)),
    )
    flows = tuple(Flow(one, other, rng.choice((1.0, 2.0, 5.0))) for one, other in pairwise(names))
    return Network(tuple(map(Server, sorted(points))), stages, flows, latency, apart_s=0.1)


def least(network: Network) -> float:
    """The least cost of two far replicas of each operator, of all deployments."""
    pairs = [
        (one.name, other.name)
        for one, other in combinations(network.servers, 2)
        if network.between(one.name, other.name) > network.apart_s
    ]
    ends = {each.name: each.at for each in network.stages if each.at}
    return min(
        total_cost(network, ends | dict(zip(("one", "two", "three"), chosen, strict=True)))
        for chosen in product(pairs, repeat=3)
    )


def test_the_improvement_is_within_a_twentieth_of_the_best_deployment() -> None:
    ratios = []
    for seed in range(20):
        rng = random.Random(seed)
        network = drawn(rng)
        first = deployed(network, 2)
        found = improved(network, first, rng)
        assert total_cost(network, found.places) <= total_cost(network, first.places)
        ratios.append(total_cost(network, found.places) / least(network))
    assert min(ratios) >= 1 - 1e-9
    assert quantiles(ratios, n=20)[-1] <= 1.05


def test_the_improvement_keeps_distances_and_what_stays_where_it_is() -> None:
    begin = Deployment({"source": ("a",), "union": ("b", "d"), "reader": ("d",)})
    found = improved(LINE, begin, random.Random(1))
    assert found.places == {"source": ("a",), "union": ("a", "c"), "reader": ("d",)}


@pytest.mark.parametrize("count", [200])
def test_many_servers_are_planned(count: int) -> None:
    rng = random.Random(7)
    points = [(rng.random(), rng.random()) for _ in range(count)]
    names = [f"s{n}" for n in range(count)]
    latency = {
        (names[i], names[j]): ((x - u) ** 2 + (y - v) ** 2) ** 0.5
        for i, (x, y) in enumerate(points)
        for j, (u, v) in enumerate(points)
    }
    stages = (PlacedStage("in", at=("s0",)), PlacedStage("one", 0.1), PlacedStage("out", at=("s1",)))
    flows = (Flow("in", "one", 3.0), Flow("one", "out", 1.0))
    network = Network(tuple(map(Server, names)), stages, flows, latency)
    found = improved(network, deployed(network, 3), rng)
    assert len(set(found.places["one"])) == 3
