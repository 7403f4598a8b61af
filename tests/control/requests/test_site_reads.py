"""Which requests for results a site answers from its copy of the log, and which it leaves to the master."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from elfmesh.control.closing.shown import ShownLines
from elfmesh.control.closing.tentative import Tentative
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.terms import PathLayout, Terms
from elfmesh.control.protocol.events import ReadLog
from elfmesh.control.protocol.messages import Ask
from elfmesh.control.replicas.job_replica import JobReplica
from elfmesh.control.replicas.log_copy import LogCopy
from elfmesh.control.requests.site_reads import SiteReads, reads_at_site
from elfmesh.control.requests.verbs import HUNG_UP
from elfmesh.ql.values.row_json import encode_json
from tests.control.contexts import new_context
from tests.control.register.support import JOB, TERMS, A, B

LATEST = 7
OF = {"incarnation": "i"}


class Rig:
    """A site of A's job, which votes; its copy of the log ends with `LATEST`."""

    def __init__(self, *, votes: bool = True, is_site: bool = True) -> None:
        self.context = new_context(1)
        me = self.context.me
        layout = PathLayout("region", (), (A, me if is_site else B))
        terms: Terms = replace(TERMS, layout=layout, acceptors=(A, B, *((me,) if votes else ())))
        self.copy = LogCopy(self.context, JOB, "i", LATEST, lambda: ())
        self.replicas = {JOB: JobReplica(self.context, terms, self.copy)}
        self.reads = SiteReads(self.context, self.replicas)

    def ask(self, body: dict[str, Any], verb: str = "results") -> bool:
        return self.reads.answers(Ask(verb, JOB, encode_json(body), B, 1), body)

    def read(self) -> list[int | None]:
        """The first intervals that were read from the log."""
        out, self.context.out = self.context.out, []
        return [each.start for each in out if isinstance(each, ReadLog)]


@pytest.mark.parametrize(
    ("body", "answers"),
    [
        (OF | {"from": 5}, True),
        (OF | {"from": "7"}, True),
        (OF | {"from": 5, "to": 7}, True),
        ({"near": "i", "from": 5}, True),
        (OF | {"from": 8, "wait": 20}, True),
        (OF | {"from": 8}, False),
        (OF | {"from": 5, "to": 8}, False),
        (OF, False),
        (OF | {"from": "x"}, False),
        ({"from": 5}, False),
        ({"incarnation": "another", "from": 5}, False),
        (OF | {"from": 5, "state": "all"}, False),
        (OF | {"from": 5, "state": "early"}, False),
    ],
)
def test_a_site_answers_only_what_it_is_sure_of(body: dict[str, Any], answers: bool) -> None:
    assert Rig().ask(body) == answers


def test_an_agent_without_the_log_or_the_job_leaves_requests_to_the_master() -> None:
    body = OF | {"from": 5}
    assert not Rig(votes=False).ask(body)
    assert not Rig(is_site=False).ask(body)
    assert not Rig().ask(body, "offsets")
    rig = Rig()
    rig.replicas.clear()
    assert not rig.ask(body)
    assert not reads_at_site("describe", body)


def test_a_long_poll_is_answered_when_the_record_is_in_the_log() -> None:
    rig = Rig()
    assert rig.ask(OF | {"from": LATEST + 1, "wait": 20})
    assert rig.read() == []
    rig.copy.appended(LATEST + 1)
    assert rig.read() == [LATEST + 1]


def test_a_site_that_votes_serves_tentative_records_to_clients_that_state_whose_numbers_they_have() -> None:
    rig, lines = Rig(), ShownLines(Tentative(new_context(1), 1, lambda: None, lambda: None), None, "me/1")  # type: ignore[arg-type]  # a site has no early lines
    body = OF | {"from": LATEST + 1, "wait": 20, "state": "all", "revision": 0, "site": ""}
    assert not rig.ask(body), "it does not vote now"
    rig.reads.lines = lambda job: lines
    assert not rig.ask({name: each for name, each in body.items() if name != "site"})
    assert rig.ask(body | {"site": "me/1", "revision": lines.seq})
    assert rig.read() == []
    rig.reads.shown(JOB)
    assert rig.read() == [LATEST + 1]


def test_a_site_drops_a_question_that_another_one_has_answered() -> None:
    rig = Rig()
    assert not rig.ask({}, HUNG_UP), "it may wait at the master"
    assert rig.ask({"spare": 0}, HUNG_UP), "it waits nowhere any more"
    assert rig.ask(OF | {"from": LATEST + 1, "wait": 20, "spare": 0.2})
    assert rig.ask({}, HUNG_UP)
    rig.copy.appended(LATEST + 1)
    assert rig.read() == []


def test_another_copy_of_the_log_has_readers_of_its_own() -> None:
    rig = Rig()
    assert rig.ask(OF | {"from": LATEST + 1, "wait": 20})
    terms = rig.replicas[JOB].terms
    other = LogCopy(rig.context, JOB, "i", LATEST + 1, lambda: ())
    rig.replicas[JOB] = JobReplica(rig.context, terms, other)
    assert rig.ask(OF | {"from": LATEST + 1})
    assert rig.read() == [LATEST + 1]


def test_a_job_that_reads_this_one_is_answered_when_the_next_record_is_in_the_log() -> None:
    rig = Rig()
    from_us = (LATEST + 1) * read_plan(rig.replicas[JOB].terms.manifest.text).slide_us
    body = {"near": "i", "reader": "shop/best", "from_us": from_us, "wait": 2.0}
    assert rig.ask(body, "feed")
    assert rig.read() == []
    rig.copy.appended(LATEST + 1)
    assert rig.read() == [LATEST + 1]
    assert not rig.ask({**body, "near": "another"}, "feed")
    assert not rig.ask({name: each for name, each in body.items() if name != "near"}, "feed")
