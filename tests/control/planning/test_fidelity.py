"""Eq. 1-4 on the paper's figures, their properties, and internal completeness."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from elfmesh.control.planning.fidelity import (
    TaskMeasure,
    fidelities,
    fidelity,
    internal_completeness,
    internal_completenesses,
    packed,
)
from elfmesh.control.planning.topology import Topology
from elfmesh.control.planning.topology_build import topology_of
from tests.control.planning.brute import Brute, small_topologies
from tests.control.planning.topologies import figure_2, operator


def without(topology: Topology, *lost: str) -> list[int]:
    return [task for task, name in enumerate(topology.names) if name not in lost]


@pytest.mark.parametrize(("join", "loss"), [(True, 2 / 5), (False, 1 / 4)])
def test_the_loss_of_t22_is_that_of_the_paper(join: bool, loss: float) -> None:
    topology = figure_2(join=join)
    assert fidelity(topology, without(topology, "O2.01")) == pytest.approx(1 - loss)


def test_a_failed_task_delivers_nothing_and_a_failed_sink_loses_its_share() -> None:
    values = {"operators": [operator("A", [3.0, 1.0]), operator("B", 2, ("A", "one-to-one"))]}
    topology = topology_of(values)
    assert fidelity(topology, without(topology, "B.00")) == pytest.approx(1 / 4)
    assert fidelity(topology, without(topology, "A.00", "B.01")) == 0


def test_tasks_are_weighted_by_heads_where_all_rates_are_0() -> None:
    topology = topology_of({"operators": [operator("A", [0.0] * 4), operator("B", 1, ("A", "merge"))]})
    assert fidelity(topology, without(topology, "A.00")) == pytest.approx(3 / 4)


def test_a_join_behind_a_stream_of_which_it_gets_no_substream_depends_on_the_others() -> None:
    values = {
        "operators": [
            operator("A", 1),
            operator("B", 2),
            {
                **operator("J", 2, correlated=True),
                "inputs": [{"from": "A"}, {"from": "B", "partitioning": "one-to-one"}],
            },
        ],
        "edges": [["A.00", "J.00", 1.0]],
    }
    topology = topology_of(values)
    assert fidelity(topology, without(topology, "A.00")) == pytest.approx(1 / 3)


def test_fidelity_is_monotone_and_between_0_and_1() -> None:
    for topology in small_topologies(20):
        brute = Brute(topology)
        assert brute.values.min() >= 0
        assert brute.values.max() == pytest.approx(1)
        assert brute.values[-1] == pytest.approx(1)
        bits = 1 << np.arange(len(topology))[::-1]
        for bit in bits:  # plans are in the order of binary numbers
            at = np.flatnonzero(np.arange(len(brute.plans)) & bit == 0)
            assert (brute.values[at] <= brute.values[at + bit] + 1e-12).all()


def test_many_sets_are_evaluated_like_one() -> None:
    dice = random.Random(1)
    for topology in small_topologies(20):
        alive = np.array([[dice.random() < 0.7 for _ in topology.names] for _ in range(9)])
        single = [fidelity(topology, np.flatnonzero(row).tolist()) for row in alive]
        assert fidelities(topology, alive) == pytest.approx(single)


@pytest.mark.parametrize("measure", [fidelities, internal_completenesses], ids=["OF", "IC"])
def test_whether_tasks_raise_a_measure_is_known_without_its_value(measure: TaskMeasure) -> None:
    dice, raises = random.Random(2), Counter[bool]()
    for topology in small_topologies(60):
        if dice.random() < 0.5:  # substreams without records, where others of the receiver have some
            topology.operators[-1].inputs[0].rates[:1] = 0.0
        held = np.array([dice.random() < 0.5 for _ in topology.names])
        added = np.array([[dice.random() < 0.4 for _ in topology.names] for _ in range(11)])
        before = measure(topology, held[None, :])[0]
        expected = (measure(topology, added | held) > before + 1e-12).tolist()
        assert measure.raised(topology, held, packed(added), len(added)).tolist() == expected
        raises.update(expected)
    assert min(raises[True], raises[False]) > 100


def test_the_names_of_tasks_do_not_matter() -> None:
    for topology in small_topologies(10):
        renamed = Topology(
            topology.operators, tuple(reversed(topology.names)), topology.rates, topology.costs,
            topology.domains, topology.sinks,
        )  # fmt: skip
        alive = range(0, len(topology), 2)
        assert fidelity(renamed, alive) == fidelity(topology, alive)


def tuples(topology: Topology, alive: list[int]) -> float:
    """Run a topology without joins tuple by tuple; return how many are processed."""
    into = np.zeros(len(topology))
    queue: list[tuple[int, float]] = []
    for each in topology.operators:
        for stream in each.inputs:
            np.add.at(into, stream.receivers, stream.rates)
        if not each.inputs:
            into[each.first : each.stop] = topology.rates[each.first : each.stop]
            queue += [(task, 1.0) for task in each.tasks for _ in range(int(topology.rates[task]))]
    processed = 0.0
    while queue:
        task, part = queue.pop()
        if task not in alive:
            continue
        processed += part
        for _, stream in topology.pairs:
            for at in np.flatnonzero(stream.senders == task).tolist():  # the part that a receiver gets
                queue.append((int(stream.receivers[at]), part * float(stream.rates[at] / into[task])))
    return processed


def test_internal_completeness_is_the_share_of_processed_tuples() -> None:
    dice = random.Random(3)
    checked = 0
    for topology in small_topologies(60, tasks_max=8):
        if any(each.correlated for each in topology.operators):
            continue
        alive = [task for task in range(len(topology)) if dice.random() < 0.7]
        counted = tuples(topology, alive) / tuples(topology, list(range(len(topology))))
        assert internal_completeness(topology, alive) == pytest.approx(counted)
        checked += 1
    assert checked > 10


def test_internal_completeness_exceeds_fidelity_where_a_join_has_lost_one_input() -> None:
    topology = figure_2(join=True)
    alive = without(topology, "O1.00", "O1.01")
    assert fidelity(topology, alive) == 0
    assert internal_completeness(topology, alive) > 0.5
    assert internal_completenesses(topology, topology.mask(alive)[None, :]).shape == (1,)
