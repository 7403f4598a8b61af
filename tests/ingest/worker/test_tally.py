"""Which bucket each record stands in, by interval: against counting them one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elfmesh.control.jobs.records import BUCKETS, CONTRIBUTED, FILTERED, LATE, PARSE_ERROR
from elfmesh.ingest.worker.tally import Tally


def shown(counts: list[int]) -> dict[str, int]:
    return {BUCKETS[at]: number for at, number in enumerate(counts) if number}


def test_a_pane_counts_in_every_window_that_has_it() -> None:
    tally = Tally(slide=2, size=6)
    tally.count_pane(CONTRIBUTED, 5, 4)
    assert tally.occupied(-9, 9) == [0, 1, 2]
    assert [shown(tally.of(index)) for index in (-1, 0, 2, 3)] == [
        {},
        {BUCKETS[CONTRIBUTED]: 5},
        {BUCKETS[CONTRIBUTED]: 5},
        {},
    ]
    assert tally.totals[CONTRIBUTED] == 5, "each record once"
    assert tally.end == 3


def test_records_of_no_interval_go_to_the_first_that_is_sealed() -> None:
    tally = Tally(1, 1)
    tally.count(PARSE_ERROR, 3, None)
    assert tally.occupied(0, 99) == []
    tally.place_homeless(7)
    assert shown(tally.of(7)) == {BUCKETS[PARSE_ERROR]: 3}
    tally.place_homeless(8)
    assert shown(tally.of(8)) == {}


def test_what_no_replay_counts_is_carried_until_its_interval_is_closed() -> None:
    tally = Tally(1, 1)
    tally.count_once(LATE, 2, 5, home=3)
    tally.count_once(LATE, 1, 5, home=3)
    tally.count_once(LATE, 4, 9)
    tally.count_once(LATE, 0, 1)
    assert [(index, home, counts[LATE]) for index, home, counts in tally.carried if home == 3] == [(5, 3, 3)]
    assert [(index, counts[LATE]) for index, _, counts in tally.once_below(6)] == [(5, 3)]
    tally.close_below(6)
    assert [(index, counts[LATE]) for index, _, counts in tally.carried] == [(9, 4)]
    assert tally.totals[LATE] == 7


def test_what_is_carried_without_an_interval_belongs_to_the_last_that_is_sealed() -> None:
    tally = Tally(1, 1)
    tally.count_once(PARSE_ERROR, 2, None)
    assert [(index, counts[PARSE_ERROR]) for index, _, counts in tally.once_below(4)] == [(3, 2)]
    tally.close_below(4)
    assert len(tally.carried) == 1, "it is in no closed interval yet"
    tally.place_homeless(4)
    assert not list(tally.carried)
    assert shown(tally.of(4)) == {BUCKETS[PARSE_ERROR]: 2}


def test_nothing_ends_far_in_the_past() -> None:
    assert Tally(1, 1).end < -(2**61)


def test_a_count_that_is_in_the_totals_already_is_not_added_to_them() -> None:
    tally = Tally(1, 1)
    tally.count(LATE, 2, 1, total=False)
    assert (tally.totals[LATE], tally.of(1)[LATE]) == (0, 2)


@given(
    st.integers(1, 4),
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from([CONTRIBUTED, FILTERED]), st.integers(-9, 9))),
    st.integers(-3, 3),
)
def test_windows_have_what_their_panes_have(
    slide: int, hops: int, records: list[tuple[int, int]], closed: int
) -> None:
    size = slide * hops
    tally = Tally(slide, size)
    for bucket, pane in records:
        tally.count_pane(bucket, 1, pane)
    tally.close_below(closed)
    for index in range(closed, 12):
        inside = [bucket for bucket, pane in records if index * slide <= pane < index * slide + size]
        counts = tally.of(index)
        assert [counts[CONTRIBUTED], counts[FILTERED]] == [inside.count(CONTRIBUTED), inside.count(FILTERED)]
        assert (index in tally.occupied(closed, 12)) == bool(inside)


def test_records_are_counted_by_input_until_their_interval_is_closed() -> None:
    tally = Tally(slide=1, size=2)
    tally.count_input(0, 5, 4)
    tally.count_input(0, 2, 4)
    tally.count_input(2, 3, 5)
    assert tally.inputs_of(4, 3) == (7, 0, 3)
    assert tally.inputs_of(3, 3) == (7, 0, 0)
    tally.close_below(5)
    assert tally.inputs_of(4, 3) == (0, 0, 3)
