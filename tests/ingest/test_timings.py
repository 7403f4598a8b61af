"""Histograms of how long things took."""

from __future__ import annotations

import pytest

from elfmesh.ingest import timings
from elfmesh.ingest.timings import BOUNDS_S, TIMINGS, Histogram, timed


@pytest.mark.parametrize(
    ("seconds", "place"),
    [
        (0.0, 0),
        (BOUNDS_S[0], 0),
        (BOUNDS_S[0] + 1e-9, 1),
        (BOUNDS_S[-1], len(BOUNDS_S) - 1),
        (1e9, len(BOUNDS_S)),
    ],
)
def test_a_time_is_counted_at_the_least_bound_that_holds_it(seconds: float, place: int) -> None:
    histogram = Histogram()
    histogram.observe(seconds)
    assert [at for at, count in enumerate(histogram.counts) if count] == [place]
    assert histogram.sum_s == seconds


def test_a_clock_that_goes_back_takes_nothing_from_the_sum() -> None:
    histogram = Histogram()
    histogram.observe(-5.0)
    assert (histogram.sum_s, histogram.counts[0]) == (0.0, 1)


def test_what_fails_is_timed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TIMINGS, "poll", Histogram())
    with pytest.raises(ZeroDivisionError), timed("poll"):
        _ = 1 / 0
    assert sum(TIMINGS["poll"].counts) == 1
    assert TIMINGS["poll"].sum_s >= 0


def test_every_name_has_a_histogram_and_no_other_is_taken() -> None:
    assert timings.NAMES.keys() == TIMINGS.keys()
    with pytest.raises(KeyError):
        timings.observe("nothing", 1.0)
