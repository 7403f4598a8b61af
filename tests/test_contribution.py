"""Runs of contributions are cut, replaced and split as a dictionary by interval would be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elfmesh.contribution import Contribution, around_revisions, payload_bytes, replaced, split, within

RUNS = st.dictionaries(
    st.integers(-5, 15), st.tuples(st.binary(max_size=3), st.integers(1, 3)), max_size=12
).map(lambda found: tuple(Contribution(at, (at,), *found[at]) for at in sorted(found)))
PLACES = st.integers(-7, 17)


@given(RUNS, PLACES, PLACES)
def test_a_run_is_cut_exactly(run: tuple[Contribution, ...], start: int, stop: int) -> None:
    assert within(run, start, stop) == tuple(each for each in run if start <= each.interval < stop)


@given(RUNS, st.integers(-5, 15))
def test_one_contribution_replaces_that_of_its_interval(run: tuple[Contribution, ...], at: int) -> None:
    new = Contribution(at, (), b"new", 9)
    model = {each.interval: each for each in run} | {at: new}
    assert replaced(run, new) == tuple(model[interval] for interval in sorted(model))


@given(RUNS, PLACES, PLACES)
def test_each_revision_stands_alone(run: tuple[Contribution, ...], start: int, stop: int) -> None:
    pieces = list(around_revisions(run, start, stop))
    assert [at for low, high in pieces for at in range(low, high)] == list(range(start, stop))
    for low, high in pieces:
        inside = within(run, low, high)
        assert low < high
        assert high - low == 1 or all(each.rev == 1 for each in inside)


@given(st.lists(st.binary(max_size=4), max_size=6), st.integers(-2, 2))
def test_a_payload_is_split_only_into_what_it_is_made_of(pieces: list[bytes], more: int) -> None:
    sizes = [len(each) for each in pieces]
    assert split(b"".join(pieces), sizes) == tuple(pieces)
    if more:
        assert split(b"".join(pieces), [*sizes, more]) is None


@given(st.lists(RUNS, max_size=3))
def test_bytes_are_those_of_all_payloads(parts: list[tuple[Contribution, ...]]) -> None:
    assert payload_bytes(parts) == len(b"".join(each.payload for run in parts for each in run))
