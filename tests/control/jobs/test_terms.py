"""Terms of a job: its stages, and the numberings of its results before the present one."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from elfmesh.control.jobs.terms import EARLIER_MAX, Numbering
from tests.control.register.support import MANIFEST, TERMS, B


def test_a_numbering_without_a_record_is_none() -> None:
    assert TERMS.numberings(None, None) == ()
    earlier = (Numbering(incarnation="h", first=None, latest=3),)
    assert replace(TERMS, earlier=earlier).numberings(None, None) == earlier


def test_the_present_numbering_comes_after_those_before_it() -> None:
    earlier = (Numbering(incarnation="h", first=None, latest=3),)
    found = replace(TERMS, earlier=earlier).numberings(2, 9)
    assert found == (*earlier, Numbering(incarnation=MANIFEST.incarnation, first=2, latest=9))


@pytest.mark.parametrize("count", [EARLIER_MAX - 1, EARLIER_MAX, EARLIER_MAX + 1])
def test_only_the_newest_numberings_are_named(count: int) -> None:
    earlier = tuple(Numbering(incarnation=f"i{at}", first=None, latest=at) for at in range(count))
    found = replace(TERMS, earlier=earlier).numberings(None, 7)
    assert len(found) == min(count + 1, EARLIER_MAX)
    assert found[-1].latest == 7
    assert found[-2] == earlier[-1]


def test_a_version_without_a_text_of_another_evaluates_its_own() -> None:
    (stage,) = replace(TERMS, manifest=replace(MANIFEST, version=4), effective=6).stages
    assert (stage.start, stage.evaluated) == (6, 4)
    (stage,) = replace(TERMS, manifest=replace(MANIFEST, version=4), evaluated=2).stages
    assert stage.evaluated == 2


def test_the_roster_epoch_is_the_epoch_and_travels_only_where_it_differs() -> None:
    terms = replace(TERMS, epoch=7)
    assert terms.roster_epoch == 7
    assert "roster_epoch" not in msgspec.msgpack.decode(msgspec.msgpack.encode(terms))
    kept = replace(terms, stated_roster_epoch=5)
    sent = msgspec.msgpack.encode(kept)
    assert msgspec.msgpack.decode(sent)["roster_epoch"] == 5
    assert msgspec.msgpack.decode(sent, type=type(kept)).roster_epoch == 5


def test_terms_of_a_new_epoch_begin_a_new_roster_epoch() -> None:
    found = replace(TERMS, epoch=7, stated_roster_epoch=5).in_epoch(8, B)
    assert (found.epoch, found.master, found.roster_epoch) == (8, B, 8)
