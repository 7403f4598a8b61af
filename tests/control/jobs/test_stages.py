"""Stages: which version of a job an interval belongs to, and which versions are still wanted."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elfmesh.control.jobs import stages as under_test
from elfmesh.control.jobs.stages import (
    differs_at,
    evaluations,
    followed,
    reverted,
    stage_at,
    trimmed,
    valid_until,
)
from elfmesh.control.jobs.terms import Stage, Terms
from tests.control.register.support import MANIFEST, A


def stages(*known: tuple[int, int, int]) -> tuple[Stage, ...]:
    """Stages by first interval, version and the version by whose text agents evaluate."""
    return tuple(Stage(start, replace(MANIFEST, version=version), by) for start, version, by in known)


THREE = stages((0, 1, 1), (10, 2, 1), (20, 3, 3))


@pytest.mark.parametrize(
    ("interval", "version"), [(-5, 1), (0, 1), (9, 1), (10, 2), (19, 2), (20, 3), (99, 3)]
)
def test_an_interval_belongs_to_the_last_stage_that_begins_at_or_before_it(
    interval: int, version: int
) -> None:
    assert stage_at(THREE, interval).manifest.version == version


def test_of_stages_with_one_beginning_the_newest_counts() -> None:
    assert stage_at(stages((0, 1, 1), (5, 2, 2), (5, 3, 3)), 5).manifest.version == 3


@pytest.mark.parametrize(
    ("by", "start", "stop", "until"),
    [
        (1, 0, 30, 20),  # version 2 has changed the end of the query alone
        (1, 0, 15, 15),
        (1, 20, 30, 20),
        (3, 0, 30, 0),
        (3, 20, 30, 30),
        (1, -9, 30, 20),
        (7, 5, 30, 5),
    ],
)
def test_a_contribution_is_valid_up_to_the_first_interval_of_another_text(
    by: int, start: int, stop: int, until: int
) -> None:
    assert valid_until(THREE, by, start, stop) == until


def test_agents_receive_only_stages_that_evaluate_something_else() -> None:
    assert [stage.manifest.version for stage in evaluations(THREE)] == [1, 3]
    empty = stages((0, 1, 1), (10, 2, 2), (10, 3, 3))
    assert [stage.manifest.version for stage in evaluations(empty)] == [1, 3]
    assert [stage.start for stage in evaluations(stages((0, 1, 1), (5, 2, 1), (9, 3, 1)))] == [0]


@pytest.mark.parametrize(
    ("old", "new", "closed", "at"),
    [
        (THREE, THREE, 0, None),
        (THREE[:2], THREE, 0, 20),
        (THREE[:2], THREE, 25, 25),
        (THREE[:1], THREE[:2], 0, None),
        (THREE, stages((0, 1, 1), (15, 3, 3)), 0, 15),
    ],
)
def test_the_first_interval_that_another_version_evaluates(
    old: tuple[Stage, ...], new: tuple[Stage, ...], closed: int, at: int | None
) -> None:
    assert differs_at(old, new, closed) == at
    assert differs_at(new, old, closed) == at, "in both directions"


def test_a_version_that_follows_cuts_off_those_that_had_not_begun() -> None:
    (following,) = stages((5, 4, 4))
    kept = followed(THREE, following)
    assert [(stage.start, stage.manifest.version) for stage in kept] == [(0, 1), (5, 3), (5, 4)]
    assert stage_at(kept, 5).manifest.version == 4


@pytest.mark.parametrize(
    ("effective", "closed", "versions"),
    [(30, 0, [1, 2, 3]), (30, 10, [2, 3]), (30, 20, [3]), (30, 99, [3]), (30, 9, [1, 2, 3])],
)
def test_stages_whose_intervals_are_closed_go_except_the_last(
    effective: int, closed: int, versions: list[int]
) -> None:
    assert [stage.manifest.version for stage in trimmed(THREE, effective, closed)] == versions
    assert len(versions) >= under_test.KEPT - 1


def test_terms_of_a_change_that_was_not_chosen_are_those_before_it() -> None:
    terms = Terms(manifest=MANIFEST, master=A, epoch=1, effective=3, evaluated=1)
    assert reverted(terms) is None
    newer = replace(
        terms, manifest=replace(MANIFEST, version=2), effective=9, evaluated=2, older=terms.stages
    )
    assert reverted(newer) == terms


@st.composite
def any_stages(draw: st.DrawFn) -> tuple[Stage, ...]:
    starts = sorted(draw(st.lists(st.integers(0, 12), min_size=1, max_size=5)))
    texts = draw(st.lists(st.integers(1, 3), min_size=len(starts), max_size=len(starts)))
    return stages(*((start, at + 1, by) for at, (start, by) in enumerate(zip(starts, texts, strict=True))))


@given(any_stages(), st.integers(1, 3), st.integers(0, 15), st.integers(0, 15))
def test_validity_is_that_of_each_interval_alone(
    given: tuple[Stage, ...], by: int, at: int, size: int
) -> None:
    start = max(at, given[0].start)
    until = valid_until(given, by, at, start + size)
    assert all(stage_at(given, each).evaluated == by for each in range(start, until))
    assert until == start + size or stage_at(given, until).evaluated != by


@given(any_stages())
def test_the_stages_of_agents_evaluate_what_all_stages_do(given: tuple[Stage, ...]) -> None:
    shown = evaluations(given)
    for interval in range(given[0].start, 14):
        assert stage_at(shown, interval).evaluated == stage_at(given, interval).evaluated
    assert all(before.evaluated != after.evaluated for before, after in pairwise(shown))
