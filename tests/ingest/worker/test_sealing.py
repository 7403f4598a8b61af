"""What was given and is not closed is counted until it is closed, whatever the order of releases."""

from __future__ import annotations

from elfmesh.contribution import Contribution
from elfmesh.control.jobs.records import CONTRIBUTED, NOT_COUNTED, OVERFLOW
from elfmesh.control.protocol import events as ctl
from elfmesh.ingest.worker.intervals import WorkerInterval as Closed
from elfmesh.ingest.worker.sealing import Unreleased, _within


def given(start: int, stop: int, *sizes: int) -> ctl.Sealed:
    counts = tuple(NOT_COUNTED)
    run = tuple(Contribution(start + n, counts, bytes(size)) for n, size in enumerate(sizes))
    return ctl.Sealed(b"j", "i", start, stop, (run,), evaluated=1)


def test_bytes_are_held_until_their_range_is_closed() -> None:
    held = Unreleased()
    held.given(given(0, 2, 10, 20))
    held.given(given(2, 3, 5))
    assert held.nbytes == 35
    held.release(1)
    assert held.nbytes == 35, "a range is closed as a whole"
    held.release(2)
    assert held.nbytes == 5
    held.release(9)
    held.release(3)
    assert held.nbytes == 0


def test_what_the_spool_has_no_room_for_keeps_its_counts() -> None:
    counts = [0] * len(NOT_COUNTED)
    counts[CONTRIBUTED] = 3
    sealed = [Closed(n, tuple(counts), (bytes(size),)) for n, size in enumerate((10, 50, 10))]
    first, second, third = _within(sealed, 20)
    assert (first.payloads, third.payloads) == ([bytes(10)], [bytes(10)]), "smaller ones still fit"
    assert second.payloads == [b""]
    assert (second.counts[CONTRIBUTED], second.counts[OVERFLOW]) == (0, 3)
    assert [each.payloads for each in _within(sealed, None)] == [list(each.payloads) for each in sealed]
