"""What voters do without their safeguards where votes rot away or records are large; see `ablations`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from elfmesh.control.register.folding import FoundWithVotes
from elfmesh.control.register.vote_counts import VoterAnswer
from tests.sim.swarm.ablations.names import Patch, always
from tests.sim.swarm.shapes import FOUNDING, PAGED, RECOVERIES, ROLLBACKS, VOTES, VOTING, Shape


def unnoticed(self: Any, problem: str) -> None:
    """A damaged file is as good as one that holds what is left of it."""


def excluded(self: Any, sender: Any, message: Any) -> bool:
    """A voter whose return waits for records refuses for its lost votes."""
    if not self._is_lost(message.job) or self._begins(message.value):
        return False
    self._refuse(sender, message.job, message.ballot)
    return True


def taken_over(self: Any, passed: Any, terms: Any, done: Any) -> None:
    """A master without an answer of its own is dead."""
    if done is not None and (done.others or not done.alive):
        self.leadership.take_over(terms)


ELSEWHERE = {
    "voters-of-the-end": "tests/control/register/test_first_acceptors.py",
    "end-asks-all": "tests/control/register/test_first_acceptors.py",
    "returned-voters": "tests/control/register/test_lost_votes.py",
    "votes-are-folded": "tests/control/register/test_votes.py",
    "records-on-request": "tests/control/register/test_votes.py",
    "no-grant-while-joint": "tests/control/register/test_changes.py",
    "texts-that-may-vote": "tests/control/master/grants/test_permission.py",
    "site-waits-for-all": "tests/control/paths/test_site_records.py",
    "site-abstains": "tests/control/paths/test_site_records.py",
    "whole-records-are-voted-on": "tests/control/paths/test_site_records.py",
    "sites-are-read-too": "tests/control/upstream/test_poller.py",
    "complete-is-not-closed": "tests/control/paths/test_site_records.py",
    "revisions-of-one-site": "tests/control/master/test_result_service.py",
    "grant-ends-first": "tests/control/closing/test_interval_closer.py",
    "roster-waits-for-votes": "tests/control/closing/test_commit.py",
    "stale-voters-get-the-value": "tests/control/register/grants/test_stale_voters.py",
    "spare-sites-are-asked": "tests/control/requests/test_job_question.py",
    "reached-through-others": "tests/control/requests/test_handler.py",
}
"""Stories that are too rare for seeds: the nearest agents change after the end of a job. A register that has
left out a voter stops only if another voter loses its votes as well. A new value seldom follows a vote that
its acceptors have not seen. No seed cuts the link between two agents that others reach. The master refuses to
vote on an incomplete record, a new value under a joint one needs both groups, and few records are revised
under a grant, so that the other safeguards of votes hold by each other in the swarm."""

SAFEGUARDS: dict[str, tuple[str, str, Callable[[], list[Patch]], Shape]] = {
    "rot-of-votes": (
        "damage of the state log is not taken for a torn end",
        "D-4",
        always(("rot-of-votes", unnoticed)),
        VOTES,
    ),
    "lost-votes": (
        "an agent that has lost its votes does not vote",
        "D-4",
        always(("lost-votes", lambda self, job: False)),
        VOTES,
    ),
    "returned-voters": (
        "a voter that has come back is not left out again for an earlier refusal",
        "D-4",
        always(
            ("returned-voters:proposer", lambda self, value: None), ("returned-voters:acceptor", excluded)
        ),
        ROLLBACKS,
    ),
    "votes-seen": (
        "a question for a vote says how many votes of its voter were seen",
        "D-4",
        always(("votes-seen", lambda self, voter: VoterAnswer())),
        ROLLBACKS,
    ),
    "generations": (
        "who knows a later generation of a job votes in no earlier one",
        "D-4",
        always(("generations", lambda self, job, epoch: False)),
        RECOVERIES,
    ),
    "won-too-late": (
        "an agent that knows a later term before it has won its own does not lead",
        "D-4",
        always(
            ("won-too-late:told", lambda self, job: None),
            ("won-too-late:won", lambda self, job, epoch: False),
        ),
        RECOVERIES,
    ),
    "recovered-if-chosen": (
        "a recovery publishes under the old numbering only what a majority had",
        "D-4",
        always(("recovered-if-chosen", lambda cell, agents: True)),
        RECOVERIES,
    ),
    "recovered-roster": (
        "a recovery expects the members of the numbering before",
        "D-14",
        always(("recovered-roster", lambda members, start: ())),
        RECOVERIES,
    ),
    "voters-of-the-end": (
        "who voted on the end of a job goes on with its register",
        "D-4",
        always(("voters-of-the-end", lambda self, job, answers: ())),
        FOUNDING,
    ),
    "end-asks-all": (
        "all that voted on the end of a job are asked before it begins again",
        "D-4",
        always(("end-asks-all", lambda self, job, answers, asked: ())),
        FOUNDING,
    ),
    "pages-before-votes": (
        "a record is voted for where all pages of its rows are on disk",
        "D-4",
        always(("pages-before-votes", lambda self, copy, value, tail: False)),
        PAGED,
    ),
    "votes-are-folded": (
        "the next value of a register has every record on which its voters have voted",
        "D-22",
        always(("votes-are-folded", lambda begun, voted: FoundWithVotes(begun.found))),
        VOTING,
    ),
    "records-on-request": (
        "a voter gets the records that it lacks when it asks for them",
        "D-22",
        always(("records-on-request", lambda self, job, voter, asks: None)),
        VOTING,
    ),
    "no-grant-while-joint": (
        "there is no grant while the voters change",
        "D-22",
        always(("no-grant-while-joint", lambda self, old: self.grant)),
        VOTING,
    ),
    "texts-that-may-vote": (
        "only texts whose records follow from the contributions are voted on",
        "D-22",
        always(("texts-that-may-vote", lambda plan, text: True)),
        VOTING,
    ),
    "site-waits-for-all": (
        "a site votes on complete intervals only",
        "D-22",
        always(("site-waits-for-all", lambda grant, book, trees, interval: True)),
        VOTING,
    ),
    "site-abstains": (
        "a site does not vote on a record that leaves out what it holds",
        "D-22",
        always(("site-abstains", lambda grant, book, trees, interval: False)),
        VOTING,
    ),
    "whole-records-are-voted-on": (
        "a site of a job that reads jobs votes on what is complete",
        "D-22",
        always(("whole-records-are-voted-on", lambda record: True)),
        VOTING,
    ),
    "sites-are-read-too": (
        "a job that reads a job asks a site of that job, too",
        "D-22",
        always(("sites-are-read-too", lambda self, read: None)),
        VOTING,
    ),
    "complete-is-not-closed": (
        "a complete record is tentative until its interval is closed",
        "D-9",
        always(("complete-is-not-closed", lambda record: record)),
        VOTING,
    ),
    "revisions-of-one-site": (
        "a follower of all states begins again when another site answers",
        "D-9",
        always(("revisions-of-one-site", lambda self, body: body)),
        VOTING,
    ),
    "grant-ends-first": (
        "the master ends the grant before it decides about an incomplete interval",
        "D-22",
        always(("grant-ends-first", lambda decision: False)),
        VOTING,
    ),
    "roster-waits-for-votes": (
        "the roster changes only while votes close nothing",
        "D-22",
        always(("roster-waits-for-votes", lambda self, then: then())),
        VOTING,
    ),
    "stale-voters-get-the-value": (
        "a voter that the proposer does not reach gets the value from another voter",
        "D-22",
        always(("stale-voters-get-the-value", lambda self, sender, message: None)),
        VOTING,
    ),
    "spare-sites-are-asked": (
        "a reader asks further sites while the near one does not answer",
        "D-17",
        always(("spare-sites-are-asked", lambda self, token, body, sites: None)),
        VOTING,
    ),
    "reached-through-others": (
        "an agent takes over no job whose master others reach",
        "D-4",
        always(("reached-through-others", taken_over)),
        VOTING,
    ),
}
