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
    latency_stats = LatencyStats(context)
    context.now = 12.0
    latency_stats.decided(5, due=10.0)
    context.now = 12.5
    latency_stats.made(5)
    context.now = 12.75
    latency_stats.closed(5)
    assert latency_stats.describe() == [{"index": 5, "gathering": 2.0, "making": 0.5, "agreeing": 0.25}]


def test_an_interval_that_was_never_decided_here_is_not_reported(context: Context) -> None:
    latency_stats = LatencyStats(context)
    latency_stats.made(5)
    latency_stats.closed(5)
    assert latency_stats.describe() == []


def test_a_members_lateness_follows_its_newest_arrivals(context: Context) -> None:
    latency_stats = LatencyStats(context)
    context.now = 10.0
    latency_stats.arrived(0b101, None)
    assert (latency_stats.late_s(0), latency_stats.late_s(1), latency_stats.late_s(2)) == (0.0, None, 0.0)
    for _ in range(40):
        latency_stats.arrived(0b100, 8.0)
    assert latency_stats.late_s(2) == pytest.approx(2.0, rel=0.01)
    assert latency_stats.late_s(0) == 0.0
    latency_stats.forget(2)
    assert latency_stats.late_s(2) is None


def test_what_is_kept_is_bounded(context: Context) -> None:
    latency_stats = LatencyStats(context)
    for index in range(KEPT + 10):
        latency_stats.decided(index, None)
        latency_stats.closed(index)
    assert [each["index"] for each in latency_stats.describe()] == list(range(10, KEPT + 10))
    for index in range(100, 100 + 2 * OPEN_MAX):
        latency_stats.decided(index, None)
    for index in range(100, 100 + 2 * OPEN_MAX):
        latency_stats.closed(index)
    assert len(latency_stats._open) == 0
    assert latency_stats.describe()[-1]["index"] == 100 + OPEN_MAX - 1
