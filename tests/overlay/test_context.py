"""What the machines of one agent share: its rhythm, its jitter, and which contacts can be agents at all."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.machine import Contact
from elfmesh.overlay.context import DOMAIN_CHARS_MAX, HOST_CHARS_MAX, INCARNATION_MAX, Context
from elfmesh.overlay.table import Table

ME = Contact(b"\x01" * 20, "10.0.0.1", 7400, 1, "r1")


def made(me: Contact = ME) -> Context:
    return Context(me, random.Random(1), Table(me))


@pytest.mark.parametrize(
    ("changes", "acceptable"),
    [
        ({}, True),
        ({"id": ME.id}, False),  # ourselves
        ({"id": b"\x02" * 19}, False),
        ({"port": 0}, False),
        ({"port": 65535}, True),
        ({"port": 65536}, False),
        ({"host": ""}, False),
        ({"host": "h" * HOST_CHARS_MAX}, True),
        ({"host": "h" * (HOST_CHARS_MAX + 1)}, False),
        ({"rack": "r" * (DOMAIN_CHARS_MAX + 1)}, False),
        ({"region": "r" * (DOMAIN_CHARS_MAX + 1)}, False),
        ({"region": "r" * DOMAIN_CHARS_MAX}, True),
        ({"incarnation": -1}, False),
        ({"incarnation": INCARNATION_MAX}, True),
        ({"incarnation": INCARNATION_MAX + 1}, False),
    ],
)
def test_a_contact_that_can_be_no_agent_stops_here(changes: dict[str, Any], acceptable: bool) -> None:
    fields: dict[str, Any] = {"id": b"\x02" * 20, "host": "10.0.0.2", "port": 7400}
    fields |= {"incarnation": 1, "rack": "", "region": "", **changes}
    assert made().acceptable(Contact(**fields)) is acceptable


@given(st.binary(min_size=20, max_size=20), st.floats(0, 1e6), st.sampled_from([0.5, 1.0, 30.0]))
def test_the_rhythm_of_an_agent_is_kept_and_its_next_beat_is_neither_at_once_nor_late(
    identity: bytes, now: float, every_s: float
) -> None:
    context = made(Contact(identity, "h", 1, 1, ""))
    context.now = now
    beat = context.in_time(every_s)
    assert 0.74 * every_s <= beat - now <= 1.76 * every_s
    context.now = beat
    assert context.in_time(every_s) == pytest.approx(beat + every_s)


def test_moments_are_spread_around_what_was_asked() -> None:
    context = made()
    context.now = 100.0
    moments = [context.after(10.0, 0.2) for _ in range(200)]
    assert 108.0 <= min(moments) < 109.0
    assert 111.0 < max(moments) <= 112.0
    assert context.after(10.0, 0.0) == 110.0
