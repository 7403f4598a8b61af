"""Forests of one root and its children, for the tests of trees."""

from __future__ import annotations

from elfmesh.srt import (
    Contribute,
    Merged,
    MergeRequest,
    Segment,
    SegmentEntry,
    Subscribe,
)
from tests.srt.rig import TREE, Wire


def segment(start: int, stop: int, *agents: int, epoch: int = 1, attempt: int = 0, **sizes: int) -> Segment:
    """segment(0, 2, 5, _1=3): agent 5 has three bytes for interval 1."""
    coverage = sum(1 << agent for agent in agents)
    entries = tuple(SegmentEntry(int(name[1:]), (size,), size) for name, size in sizes.items())
    bitmap = coverage.to_bytes((coverage.bit_length() + 7) // 8, "little")
    return Segment(epoch, attempt, start, stop, bitmap, entries)


def grow(*numbers: int) -> Wire:
    """1 is the root, the others its children; all contribute from 0 on."""
    wire = Wire(*numbers)
    for number in numbers:
        wire.give(number, Subscribe(TREE))
        wire.deliver()
    for number in numbers:
        wire.give(number, Contribute(TREE, segment(0, 0, number)))
    wire.deliver()
    for number in numbers:
        wire.take(number)
    return wire


def merge(wire: Wire, number: int, error: str = "") -> None:
    for effect in wire.take(number):
        if isinstance(effect, MergeRequest):
            payload = None if error else b"".join(effect.parts)
            wire.effects[number] += wire.give(number, Merged(effect.token, payload, error))[:0]
        else:
            wire.effects[number].append(effect)


def contribute(wire: Wire, number: int, stop: int, payload: bytes = b"", start: int = 0) -> None:
    sizes = {f"_{stop - 1}": len(payload)} if payload else {}
    payloads = (payload,) if payload else ()
    wire.give(number, Contribute(TREE, segment(start, stop, number, **sizes), payloads))
