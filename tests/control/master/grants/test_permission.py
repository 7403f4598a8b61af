"""When votes may close the intervals of a job, and when only its master may."""

from __future__ import annotations

from typing import Any, cast

import pytest
from msgspec.structs import replace

from elfmesh.control.consensus.voting_grant import VotingGrant
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.register_value import RegisterCell
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.terms import Gateway, PathLayout, RosterEntry
from elfmesh.control.master.grants import GrantingTerm, Grants
from elfmesh.control.register.voted_chain import ROWS_BYTES_MAX
from tests.control.contexts import new_context
from tests.control.register.support import ME, STRANGER, TERMS, VALUE, A, B

WINDOW = "GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), path"
HEAD = "CREATE JOB shop.top PATHS 3 {} AS SELECT path, {} FROM clicks " + WINDOW
PLAIN = HEAD.format("", "count(*) AS n")
BY_MASTER = (
    HEAD.format("", "approx_percentile(ms, 0.5) AS half"),
    HEAD.format("EARLY '1 s'", "count(*) AS n") + " HAVING count(*) >= 5",
    HEAD.format("STANDBY ALL", "count(*) AS n"),
    "CREATE JOB shop.top PATHS 3 AS SELECT path, count(*) AS n FROM clicks"
    " GROUP BY SESSION(ts, INTERVAL '10' SECOND), path",
)
COMPLETE = ResultRecord(job="shop/top", index=7)


class Rig:
    """A term whose job may have a grant."""

    def __init__(self) -> None:
        members = tuple(RosterEntry(number, each, f"m{number}") for number, each in enumerate((ME, A, B)))
        self.context, self.plan = new_context(1), read_plan(PLAIN)
        self.book = RosterBook(members, version=4)
        for entry in members:
            self.book.acknowledge(entry.number, 4)
        manifest = replace(TERMS.manifest, text=PLAIN)
        layout = PathLayout("region", (Gateway("", A),), (ME, A, B))
        self.terms = replace(TERMS, manifest=manifest, version=4, members=members, layout=layout)
        self.cell = RegisterCell(VALUE)
        self.committer = self
        self.layouts = self
        self.closer = self
        self.tentative: list[int] = []
        self.closed = 8
        self.is_stale = self.paused = self.is_granted = False
        self.is_open = self.is_settled = True

    def changed(self) -> None: ...

    def grant(self, record: ResultRecord = COMPLETE, rows: bytes = b"") -> VotingGrant | None:
        return Grants(cast(GrantingTerm, self)).grant(record, rows, 8)


def test_a_grant_names_the_epoch_the_roster_and_the_first_open_interval() -> None:
    assert Rig().grant() == VotingGrant(1, 1, 4, 8)


def test_the_plan_of_a_job_names_what_closes_its_intervals() -> None:
    rig = Rig()
    assert Grants(cast(GrantingTerm, rig)).note().startswith("the master closes the intervals: the last one")
    rig.tentative = [7]
    assert rig.grant() is None
    rig.paused = True
    assert Grants(cast(GrantingTerm, rig)).note() == "the master closes the intervals: the job is paused"
    rig.is_granted = True
    assert Grants(cast(GrantingTerm, rig)).note() == "votes of 2 of 3 sites close complete intervals"
    rig.plan = read_plan(PLAIN.replace("PATHS 3", "PATHS 2"))
    assert Grants(cast(GrantingTerm, rig)).note() == ""


def test_more_sites_than_voters_collect_and_do_not_vote() -> None:
    rig = Rig()
    rig.terms = replace(rig.terms, layout=PathLayout("region", (Gateway("", A),), (ME, A, B, STRANGER)))
    assert rig.grant() == VotingGrant(1, 1, 4, 8)


def _unacknowledged(rig: Rig) -> None:
    rig.book.version += 1


def _changes(rig: Rig) -> None:
    rig.book.evict(1, 20)
    rig.book.acknowledge(0, 5)
    rig.book.acknowledge(2, 5)


def _votes_elsewhere(rig: Rig) -> None:
    rig.cell = RegisterCell(replace(VALUE, acceptors=(ME, A, STRANGER)))


def _two_sites(rig: Rig) -> None:
    rig.cell = RegisterCell(replace(VALUE, acceptors=(ME, A)))
    rig.terms = replace(rig.terms, layout=PathLayout("region", (Gateway("", A),), (ME, A)))


def _two_voters(rig: Rig) -> None:
    rig.cell = RegisterCell(replace(VALUE, acceptors=(ME, A)))


def _master_does_not_vote(rig: Rig) -> None:
    four = (rig.terms.master, *(each for each in (ME, A, B, STRANGER) if each != rig.terms.master))
    rig.terms = replace(rig.terms, layout=PathLayout("region", (Gateway("", A),), four))
    rig.cell = RegisterCell(replace(VALUE, acceptors=four[1:]))


def _joint(rig: Rig) -> None:
    rig.cell = RegisterCell(replace(VALUE, former=(ME, A)))


def _outside(rig: Rig) -> None:
    rig.terms = replace(rig.terms, layout=PathLayout("region", (Gateway("eu", A),), (ME, A, B)))


def _set(name: str, value: Any) -> Any:
    return lambda rig: setattr(rig, name, value)


@pytest.mark.parametrize(
    "unlike",
    [
        _set("paused", True),
        _set("is_open", False),
        _set("is_settled", False),
        _set("is_stale", True),
        *(_unacknowledged, _changes, _votes_elsewhere, _two_sites, _two_voters, _master_does_not_vote),
        *(_joint, _outside),
    ],
)
def test_there_is_no_grant_while_anything_changes_or_a_site_would_lack_parts(unlike: Any) -> None:
    rig = Rig()
    unlike(rig)
    assert rig.grant() is None


@pytest.mark.parametrize(
    "record",
    [
        replace(COMPLETE, state="FINAL_PARTIAL", completeness=0.5),
        replace(COMPLETE, rev=2),
    ],
)
def test_an_interval_that_needed_the_master_gives_no_grant(record: ResultRecord) -> None:
    assert Rig().grant(record) is None


def test_rows_that_are_too_large_for_a_vote_give_no_grant() -> None:
    assert Rig().grant(rows=b"r" * (ROWS_BYTES_MAX + 1)) is None


def test_only_texts_whose_records_follow_from_the_contributions_are_voted_on() -> None:
    for text in BY_MASTER:
        rig = Rig()
        rig.plan = read_plan(text)
        rig.terms = replace(rig.terms, manifest=replace(rig.terms.manifest, text=text))
        assert rig.grant() is None, text


def test_a_job_that_reads_jobs_has_a_grant_although_no_agent_contributes() -> None:
    rig = Rig()
    text = "CREATE JOB shop.best EVERY '10 s' PATHS 3 AS SELECT sum(n) AS n FROM shop.top"
    rig.plan, rig.book = read_plan(text), RosterBook((), version=4)
    manifest, layout = replace(rig.terms.manifest, text=text), PathLayout("region", (), (ME, A, B))
    rig.terms = replace(rig.terms, manifest=manifest, members=(), layout=layout)
    assert rig.grant() == VotingGrant(1, 1, 4, 8)
