"""What a job has sealed goes out in events of bounded size, each interval in its newest revision."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elfmesh.control.jobs.records import NOT_COUNTED
from elfmesh.ingest.worker import saying
from elfmesh.ingest.worker.saying import Saying, newest, whole_counts
from elfmesh.storage.frames import RevisedInterval, Sealed, SealedInterval
from tests.ingest.test_workers import manifest


def entry(interval: int, nbytes: int = 1) -> SealedInterval:
    return SealedInterval(interval, [interval], [b"x" * nbytes])


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 30)), max_size=12),
    st.integers(1, 4),
    st.integers(1, 60),
)
def test_events_are_small_and_follow_each_other_without_a_gap(
    given_: list[tuple[int, int]], entries_max: int, bytes_max: int
) -> None:
    interval, entries = 10, []
    for ahead, nbytes in given_:
        interval += ahead
        entries.append(entry(interval, nbytes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saying, "EVENT_ENTRIES_MAX", entries_max)
        patch.setattr(saying, "EVENT_BYTES_MAX", bytes_max)
        events = Saying(manifest()).events(10, interval + 1, entries, 1)
    assert [(events[0].start, events[-1].stop)] == [(10, interval + 1)]
    assert all(one.stop == other.start for one, other in pairwise(events))
    lines = [list(event.parts[0]) for event in events]
    assert [each.interval for part in lines for each in part] == [each.interval for each in entries]
    for event, part in zip(events, lines, strict=True):
        assert len(part) <= entries_max
        assert len(part) <= 1 or sum(len(each.payload) for each in part) <= bytes_max
        assert all(event.start <= each.interval < event.stop for each in part)


def test_each_partition_has_its_payload_and_the_first_has_the_counts() -> None:
    one = SealedInterval(5, [7], [b"a", b"b"])
    (event,) = Saying(replace(manifest(), partitions=2), begun=3).events(5, 6, [one], 1)
    (first,), (second,) = event.parts
    assert (first.payload, first.counts, second.payload, second.counts) == (
        b"a",
        whole_counts([7]),
        b"b",
        NOT_COUNTED,
    )
    assert event.begun == 3


def test_a_revision_takes_the_place_of_what_was_sealed() -> None:
    frame = Sealed("j", 1, 0, 10, [SealedInterval(2, [1], [b"a"]), SealedInterval(4, [2], [b"b"])])
    revised = {at: RevisedInterval(at, rev, [9], [b"r"], [], 1, 1) for at, rev in ((4, 3), (7, 2), (12, 2))}
    assert [(each.interval, each.rev) for each in newest(frame, revised)] == [(2, 1), (4, 3), (7, 2)]


def test_a_revision_of_an_earlier_boot_is_sent_again_without_its_contents() -> None:
    interval = RevisedInterval(4, 3, [9], [b"r"], [], 1, 1)
    lines = Saying(manifest(), begun=2)
    assert lines.revised(interval, again=True).parts == ()
    (part,) = lines.revised(interval).parts
    assert [(each.interval, each.payload, each.rev) for each in part] == [(4, b"r", 3)]


@pytest.mark.parametrize("counts", [[], [1, 2], list(NOT_COUNTED)])
def test_counts_of_an_earlier_release_have_all_buckets(counts: list[int]) -> None:
    assert whole_counts(counts)[: len(counts)] == tuple(counts)
    assert len(whole_counts(counts)) == len(NOT_COUNTED)


def test_an_event_has_the_records_by_input_of_its_own_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saying, "EVENT_ENTRIES_MAX", 1)
    inputs = {5: (1, 2), 6: (3, 4), 9: (5, 6)}
    events = Saying(manifest()).events(5, 7, [entry(5), entry(6)], 1, inputs)
    assert [event.inputs for event in events] == [((5, (1, 2)),), ((6, (3, 4)),)]
