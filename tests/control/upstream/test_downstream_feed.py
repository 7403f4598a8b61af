"""What a job tells the jobs that read it, and which of them it knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.terms import PathLayout, Terms
from elfmesh.control.upstream.downstream_feed import READER_S, READERS_MAX, DownstreamFeed, sites_of_json
from tests.control.contexts import new_context
from tests.control.member.support import SECOND
from tests.control.register.support import JOB, ME, TERMS, A, B

SLIDE_US = 10 * SECOND


@dataclass
class Now:
    """A job with these terms."""

    terms: Terms


class Rig:
    """The feed of a job with intervals of 10 seconds."""

    def __init__(self, terms: Terms = TERMS) -> None:
        self.context = new_context(1)
        self.feed = DownstreamFeed(self.context, read_plan(TERMS.manifest.text), Now(terms))

    def ask(self, reader: str | None, at: float = 0.0) -> None:
        self.context.now = at
        self.feed.asked({} if reader is None else {"reader": reader})


def test_a_reader_is_known_as_long_as_it_asks() -> None:
    rig = Rig()
    rig.ask("shop/b", 1.0)
    rig.ask("shop/a", 2.0)
    assert rig.feed.readers == ["shop/a", "shop/b"]
    rig.context.now = 1.0 + READER_S - 0.01
    assert rig.feed.readers == ["shop/a", "shop/b"]
    rig.context.now = 1.0 + READER_S
    assert rig.feed.readers == ["shop/a"]
    rig.ask("shop/a", 1.0 + READER_S)
    rig.context.now = 2.0 + READER_S
    assert rig.feed.readers == ["shop/a"]


def test_a_client_that_names_no_reader_is_none() -> None:
    rig = Rig()
    rig.ask(None)
    assert rig.feed.readers == []


def test_a_job_knows_a_limited_number_of_readers_and_keeps_those_that_it_knows() -> None:
    rig = Rig()
    for number in range(READERS_MAX + 1):
        rig.ask(f"shop/r{number}", 1.0)
    assert len(rig.feed.readers) == READERS_MAX
    assert f"shop/r{READERS_MAX}" not in rig.feed.readers
    rig.ask("shop/r0", 20.0)
    rig.ask("shop/new", 1.0 + READER_S)
    assert rig.feed.readers == ["shop/new", "shop/r0"], "those that ask no more make room"


@pytest.mark.parametrize("body", [{"reader": 7}, {"reader": b"shop/a"}, {"from_us": "soon"}])
def test_a_question_that_is_none_is_refused(body: dict[str, Any]) -> None:
    rig = Rig()
    with pytest.raises(ValueError, match=r"name of a job|invalid literal"):
        rig.feed.asked(body)
    assert rig.feed.readers == []


@pytest.mark.parametrize(
    ("from_us", "start"),
    [(None, None), (0, 0), (1, 1), (SLIDE_US, 1), (SLIDE_US + 1, 2), (-1, 0), (-SLIDE_US, -1)],
)
def test_a_reader_asks_from_a_time_and_gets_the_intervals_that_begin_there_or_later(
    from_us: int | None, start: int | None
) -> None:
    body = {"reader": "shop/a", "from_us": from_us, "limit": 5}
    assert Rig().feed.asked(body) == {**body, "from": start}


def test_a_feed_states_how_the_intervals_of_the_job_are_counted() -> None:
    facts = Rig(replace(TERMS, paused=True)).feed.facts()
    assert facts == {
        "incarnation": "i",
        "slide_us": SLIDE_US,
        "size_us": SLIDE_US,
        "columns": ["product", "hits"],
        "reads": [],
        "paused": True,
    }


def test_a_feed_names_the_sites_that_vote_besides_the_master() -> None:
    layout = PathLayout("region", (), (ME, A, B))
    body = Rig(replace(TERMS, layout=layout, acceptors=(ME, A))).feed.facts()
    job, sites = sites_of_json(body)
    assert (job, [(each.id, each.host, each.port) for each in sites]) == (JOB, [(A.id, A.host, A.port)])
    assert sites_of_json({}) == (b"", ()), "of an earlier release"
    with pytest.raises(ValueError, match="unpack"):
        sites_of_json({"sites": {"job": "", "agents": [[]]}})


def test_what_is_closed_never_shrinks() -> None:
    rig = Rig()
    assert rig.feed.until == FIRST
    for closed in (7, 5):
        rig.feed.reached(closed)
        assert rig.feed.until == 7


@pytest.mark.parametrize(
    ("start", "expired", "begin"),
    [(FIRST, None, None), (5, None, 5), (FIRST, 8, 9), (5, 8, 9), (20, 8, 20), (0, None, 0)],
)
def test_a_log_begins_where_the_job_began_or_behind_what_is_expired(
    start: int, expired: int | None, begin: int | None
) -> None:
    stretch = Rig(replace(TERMS, start=start)).feed.stretch(30, None, expired)
    assert stretch["begin_us"] == (None if begin is None else begin * SLIDE_US)


@pytest.mark.parametrize(("following", "until", "whole"), [(30, None, 30), (30, 40, 40), (30, 20, 30)])
def test_a_page_is_whole_up_to_its_end_and_the_last_one_up_to_what_is_closed(
    following: int, until: int | None, whole: int
) -> None:
    assert Rig().feed.stretch(following, until, None)["until_us"] == whole * SLIDE_US
