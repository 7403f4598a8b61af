"""Where a client's request about a job goes: to the master, to the near site, and then to the other sites."""

from __future__ import annotations

import random
from typing import Any

from elfmesh.control.answers import decode_body
from elfmesh.control.context import Context
from elfmesh.control.paths.layout import ReadSites
from elfmesh.control.protocol.events import ClientRequest
from elfmesh.control.protocol.messages import Ask, unpack
from elfmesh.control.requests.job_question import MASTER_TRIPS, SPARE_S, JobQuestion
from elfmesh.control.requests.verbs import HUNG_UP
from elfmesh.machine import Send
from elfmesh.overlay.events import Route
from tests.control.register.support import JOB, ME, A, B

OF = {"incarnation": "i", "from": 8, "wait": 20}
NEAR = ReadSites((A,), (B,))
TRIP_S = 0.07
TOKEN = 5


class Rig:
    """A request at an agent that has measured the round trip to B."""

    def __init__(self, sites: ReadSites = NEAR, verb: str = "results", wait: float = 20.0) -> None:
        facts: dict[str, dict[str, Any]] = {"round trips": {"seconds": {B.id: TRIP_S}}}
        self.context = Context(ME, "reader", random.Random(1), lambda topic: facts[topic])
        event = ClientRequest(1, verb, OF, 0)
        self.question = JobQuestion(self.context, lambda job: sites, event, JOB, wait)

    def sent(self) -> list[tuple[bytes, Ask]]:
        """The agents to which requests were sent, b"" for the master, and the requests."""
        out, self.context.out = self.context.out, []
        found: list[tuple[bytes, Ask]] = []
        for each in out:
            message = unpack(each.body) if isinstance(each, Route) else each.message  # type: ignore[attr-defined]  # nothing else is sent
            assert isinstance(message, Ask)
            found.append((each.to.id if isinstance(each, Send) else b"", message))
        return found

    def send(self, token: int = TOKEN) -> list[tuple[bytes, object]]:
        """Send the request; returns the agents, and how long each gives the near site."""
        self.question.send(token, "")
        return [(to, decode_body(ask.body).get("spare")) for to, ask in self.sent()]


def test_a_request_for_results_goes_to_the_near_site_and_repeated_to_the_others_too() -> None:
    rig = Rig()
    assert rig.send() == [(A.id, None)]
    assert rig.send() == [(A.id, None), (B.id, MASTER_TRIPS * TRIP_S)], "B gives A time"
    assert rig.send(TOKEN + 1) == [(A.id, None)], "another request of the same client"


def test_a_site_whose_round_trip_is_not_known_gives_the_near_site_a_usual_time() -> None:
    rig = Rig(ReadSites((B,), (A,)))
    rig.send()
    assert rig.send() == [(B.id, None), (A.id, MASTER_TRIPS * SPARE_S)]


def test_beside_the_master_the_other_sites_are_asked_too() -> None:
    rig = Rig(ReadSites((), (B,)))
    assert rig.send() == [(b"", None)]
    assert rig.send() == [(b"", None), (B.id, TRIP_S)]


def test_a_site_that_has_not_answered_in_time_is_replaced_by_the_master() -> None:
    rig = Rig()
    rig.send()
    rig.context.now = 20.0
    assert rig.send() == [(b"", None), (B.id, MASTER_TRIPS * TRIP_S)]


def test_other_requests_go_to_the_master() -> None:
    rig = Rig(verb="describe")
    assert [rig.send(), rig.send()] == [[(b"", None)]] * 2


def test_the_other_sites_drop_the_request_when_the_answer_is_here() -> None:
    rig = Rig()
    rig.send()
    rig.question.answered(TOKEN)
    assert rig.sent() == [], "only A was asked"
    rig.send()
    rig.question.answered(TOKEN)
    ((to, dropped),) = rig.sent()
    assert (to, dropped.verb, dropped.token, dropped.job) == (B.id, HUNG_UP, TOKEN, JOB)


def test_a_client_that_hangs_up_has_its_long_poll_dropped_everywhere() -> None:
    rig = Rig()
    rig.send()
    rig.send()
    rig.question.hung_up(TOKEN)
    assert [(to, ask.verb) for to, ask in rig.sent()] == [(B.id, HUNG_UP), (b"", HUNG_UP)]
    rig = Rig(wait=0.0)
    rig.question.hung_up(TOKEN)
    assert rig.sent() == [], "nothing waits for an answer"
