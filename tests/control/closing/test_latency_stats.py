"""Where an interval's time goes, as the master tells people."""

from __future__ import annotations

import random

import pytest

from elfmesh.control.closing.latency_stats import KEPT, OPEN_MAX, LatencyStats
from elfmesh.control.context import Context
from elfmesh.control.machine import no_facts
from tests.control.register.register_model import contact


@pytest.fixture
def context() -> Context:
    return Context(contact(1), "web1", random.Random(1), no_facts)


def test_an_interval_is_gathered_then_made_then_agreed_upon(context: Context) -> None:
    spent = LatencyStats(context)
    context.now = 12.0
    spent.decided(5, due=10.0)
    context.now = 12.5
    spent.made(5)
    context.now = 12.75
    spent.closed(5)
    assert spent.describe() == [{"index": 5, "gathering": 2.0, "making": 0.5, "agreeing": 0.25}]


def test_what_was_never_decided_here_is_not_told(context: Context) -> None:
    spent = LatencyStats(context)
    spent.made(5)
    spent.closed(5)
    assert spent.describe() == []


def test_a_members_lateness_follows_its_newest_arrivals(context: Context) -> None:
    spent = LatencyStats(context)
    context.now = 10.0
    spent.arrived(0b101, None)
    assert (spent.late_s(0), spent.late_s(1), spent.late_s(2)) == (0.0, None, 0.0)
    for _ in range(40):
        spent.arrived(0b100, 8.0)
    assert spent.late_s(2) == pytest.approx(2.0, rel=0.01)
    assert spent.late_s(0) == 0.0
    spent.forget(2)
    assert spent.late_s(2) is None


def test_what_is_kept_is_bounded(context: Context) -> None:
    spent = LatencyStats(context)
    for index in range(KEPT + 10):
        spent.decided(index, None)
        spent.closed(index)
    assert [each["index"] for each in spent.describe()] == list(range(10, KEPT + 10))
    for index in range(100, 100 + 2 * OPEN_MAX):
        spent.decided(index, None)
    for index in range(100, 100 + 2 * OPEN_MAX):
        spent.closed(index)
    assert len(spent._open) == 0
    assert spent.describe()[-1]["index"] == 100 + OPEN_MAX - 1
