"""What comes out of a merge covers exactly what went in; what cannot be merged is named."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.contribution import Contribution
from elfmesh.srt.coverage import CoverageCell
from elfmesh.srt.merging import Drop, MergeJob, Merger, still_wanted
from elfmesh.srt.parts import Part


class Host:
    """Remembers what it was asked to merge."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, tuple[bytes, ...]]] = []
        self.counts: Counter[str] = Counter()
        self.merger = Merger(self.request, 100, lambda what: self.counts.update([what]))

    def request(self, interval: int, parts: tuple[bytes, ...]) -> int:
        self.asked.append((interval, parts))
        return len(self.asked)

    def answer(self, payload: bytes | None = None, error: str = "") -> list[MergeJob]:
        """The answers to all requests, a join of what was given if no other is said."""
        jobs = []
        for token, (_, parts) in enumerate(self.asked, 1):
            merged = b"".join(parts) if payload is None and not error else payload
            job = self.merger.merged(token, merged, error)
            jobs += [] if job is None else [job]
        return jobs


def part(start: int, stop: int, agent: int, **payloads: bytes) -> Part:
    """part(0, 3, 1, _2=b"x"): agent 1 has one record and some bytes for interval 2."""
    items = tuple(Contribution(int(name[1:]), (1,), payload) for name, payload in payloads.items())
    return Part(start, stop, 1 << agent, items)


def items_of(part: Part) -> list[tuple[int, tuple[int, ...], bytes]]:
    return [(item.interval, item.counts, item.payload) for item in part.items]


def shown(jobs: list[MergeJob]) -> list[tuple[int, int, int, list[tuple[int, tuple[int, ...], bytes]]]]:
    return [
        (
            each.start,
            each.stop,
            each.coverage,
            [(item.interval, item.counts, item.payload) for item in each.items],
        )
        for job in jobs
        for each, _ in job.parts()
    ]


def test_intervals_with_one_payload_are_done_at_once_with_all_counts() -> None:
    host = Host()
    parts = [part(0, 3, 0, _1=b"x"), part(0, 3, 1, _1=b"", _2=b"y")]
    jobs = list(host.merger.begin(0, 3, parts, 0b11, claims=True))
    assert host.asked == []
    assert shown(jobs) == [(0, 3, 0b11, [(1, (2,), b"x"), (2, (1,), b"y")])]


def test_several_payloads_are_merged_by_the_host() -> None:
    host = Host()
    parts = [part(0, 2, 0, _1=b"x"), part(0, 2, 1, _1=b"y"), part(0, 2, 2, _1=b"")]
    assert list(host.merger.begin(0, 2, parts, 0b111, claims=True)) == []
    assert host.asked == [(1, (b"x", b"y"))]
    assert len(host.merger) == 1
    assert shown(host.answer()) == [(0, 2, 0b111, [(1, (3,), b"xy")])]
    assert host.answer() == [], "an answer that comes again is ignored"


def test_what_cannot_be_merged_is_left_out_and_named() -> None:
    host = Host()
    wide = Part(0, 2, 0b110, (Contribution(1, (5,), b"y"),))
    list(host.merger.begin(0, 2, [part(0, 2, 0, _1=b"x"), wide], 0b111, claims=True))
    (job,) = host.answer(error="types differ")
    assert job.drops == [Drop(1, 0b001, "types differ")]
    assert host.counts == {"merge_dropped": 1}
    assert [(each.start, each.stop, each.coverage) for each, _ in job.parts()] == [
        (0, 1, 0b111),
        (1, 2, 0b110),
    ]


def test_what_would_be_too_large_goes_up_side_by_side() -> None:
    host = Host()
    parts = [part(0, 2, 0, _1=b"x" * 60), part(0, 2, 1, _1=b"y" * 60)]
    list(host.merger.begin(0, 2, parts, 0b111, claims=True))
    (job,) = host.answer()
    assert host.counts == {"merge_oversize": 1}
    assert [(each.start, each.coverage, claims) for each, claims in job.parts()] == [
        (0, 0b111, True),
        (1, 0b101, True),  # with who said nothing
        (1, 0b010, False),
    ]


def test_answers_to_forgotten_jobs_are_ignored() -> None:
    host = Host()
    list(host.merger.begin(0, 2, [part(0, 2, 0, _1=b"x"), part(0, 2, 1, _1=b"y")], 0b11, claims=True))
    host.merger.clear()
    assert (host.answer(), len(host.merger)) == ([], 0)


PAYLOADS = st.dictionaries(st.integers(0, 5), st.sampled_from([b"", b"x", b"yy"]))


@given(st.lists(PAYLOADS, min_size=1, max_size=4))
def test_every_interval_has_each_agent_once_and_all_records(given_: list[dict[int, bytes]]) -> None:
    host = Host()
    parts = [
        part(0, 6, agent, **{f"_{interval}": each[interval] for interval in sorted(each)})
        for agent, each in enumerate(given_)
    ]
    everyone = (1 << len(parts)) - 1
    jobs = list(host.merger.begin(0, 6, parts, everyone, claims=True))
    jobs += host.answer()
    outcome = [each for job in jobs for each, _ in job.parts()]
    for interval in range(6):
        inside = [each for each in outcome if each.start <= interval < each.stop]
        assert sum(each.coverage for each in inside) == everyone
        counts = [item.counts[0] for each in inside for item in each.items if item.interval == interval]
        assert sum(counts) == sum(interval in each for each in given_)


@pytest.mark.parametrize(
    ("released", "cells", "expected"),
    [
        (0, [], [(0, 10, True)]),
        (4, [], [(0, 4, False), (4, 10, True)]),
        (10, [], [(0, 10, False), (10, 10, True)]),
        (0, [CoverageCell(3, 5, 2)], [(0, 3, True), (3, 5, False), (5, 10, True)]),
        (0, [CoverageCell(3, 5, 0)], [(0, 10, True)]),
    ],
)
def test_what_is_closed_or_collected_again_only_claims(
    released: int, cells: list[CoverageCell], expected: list[tuple[int, int, bool]]
) -> None:
    found: list[Any] = list(still_wanted(Part(0, 10, 1, ()), True, released, cells))
    assert [(each.start, each.stop, bool(each.coverage)) for each, _ in found if each.start < each.stop] == [
        each for each in expected if each[0] < each[1]
    ]


def test_what_is_merged_has_the_rules_of_all_that_went_in() -> None:
    host, eu, rack = Host(), (("region=eu",),), (("rack=r1",),)
    first, second = part(0, 2, 1, _0=b"a", _1=b"b"), part(0, 2, 2, _0=b"c")
    kept = [dataclasses.replace(first, keep_in=eu), dataclasses.replace(second, keep_in=rack)]
    assert list(host.merger.begin(0, 2, kept, 0b110, claims=True)) == []
    (job,) = host.answer()
    assert {each.keep_in for each, _ in job.parts()} == {(("rack=r1",), ("region=eu",))}
