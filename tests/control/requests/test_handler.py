"""Questions of clients where they are answered: by the master, passed on to it, or refused."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.answers import CONFLICT, NOT_FOUND, OK, UNAVAILABLE, decode_body, read_answer
from elfmesh.control.protocol.messages import HOPS_MAX, Answered, Ask, AskAll, Question, Submit, unpack
from elfmesh.control.requests.handler import ANSWER_BYTES_MAX, QUESTION_S, ROOT_AGAIN_S, ROOT_TRIES
from elfmesh.control.requests.precondition import Seen
from elfmesh.machine import Contact, Send
from elfmesh.overlay.events import Probe, ProbeDone
from elfmesh.ql.values.row_json import encode_json
from elfmesh.srt.events import Publish, PublishDone
from tests.control.member.support import TEXT, Agent
from tests.control.register.support import STRANGER, run
from tests.control.requests.led import JOB, Led

TOKEN = 9
NOWHERE = b"n" * 20


class Rig(Led):
    """The handler of the master of a job, or of another agent that knows the job."""

    def __init__(self, *, at_master: bool = True) -> None:
        super().__init__()
        others = [agent for agent in self.world.living if agent is not self.agent]
        self.leader: Contact = self.agent.me
        at: Agent = self.agent if at_master else others[0]
        self.handler = at.control.request_handler
        self.context = self.handler.context
        self.context.out.clear()

    def ask(self, verb: str, job: bytes = JOB, hops: int = 0, **body: Any) -> None:
        self.handler.on_ask(Ask(verb, job, encode_json(body), STRANGER, TOKEN, hops))

    def answers(self) -> list[tuple[int, dict[str, Any]]]:
        found = []
        for effect in self.context.out:
            if isinstance(effect, Send) and isinstance(effect.message, Answered):
                assert (effect.to, effect.message.token) == (STRANGER, TOKEN)
                found.append((effect.message.status, read_answer(effect.message, effect.payload)[0]))
        return found

    def passed_on(self) -> list[tuple[Contact, Any]]:
        return [
            (effect.to, effect.message)
            for effect in self.context.out
            if isinstance(effect, Send) and isinstance(effect.message, Ask | Submit)
        ]


def test_a_master_answers_a_question_about_its_job() -> None:
    rig = Rig()
    rig.ask("describe")
    ((status, body),) = rig.answers()
    assert (status, body["job"], body["text"]) == (OK, "shop/top", TEXT)


def test_a_master_refuses_a_verb_that_it_does_not_know() -> None:
    rig = Rig()
    rig.ask("fly")
    ((status, body),) = rig.answers()
    assert (status, body["error"]) == (NOT_FOUND, "no verb 'fly'")


@pytest.mark.parametrize("body", [b"rubbish", encode_json({"seen": "rubbish"})])
def test_a_question_that_cannot_be_read_is_counted(body: bytes) -> None:
    rig = Rig()
    rig.handler.on_ask(Ask("pause", JOB, body, STRANGER, TOKEN))
    assert rig.context.stats["control.malformed"] == 1
    assert rig.answers() == []


def test_a_job_that_is_read_is_not_deleted() -> None:
    rig = Rig()
    rig.master.term.result_service.feed.asked({"reader": "shop/best"})
    rig.ask("delete")
    ((status, body),) = rig.answers()
    assert (status, body["error"]) == (CONFLICT, "shop/best reads this job")


def test_another_agent_passes_a_question_on_to_the_master_a_limited_number_of_times() -> None:
    rig = Rig(at_master=False)
    rig.ask("describe", hops=HOPS_MAX - 1)
    ((leader, passed),) = rig.passed_on()
    assert (leader, passed.hops, passed.token, passed.origin) == (rig.leader, HOPS_MAX, TOKEN, STRANGER)
    rig.context.out.clear()
    rig.ask("describe", hops=HOPS_MAX)
    assert rig.passed_on() == []
    assert [status for status, _ in rig.answers()] == [UNAVAILABLE]


def test_an_agent_that_passes_a_request_on_looks_whether_the_master_lives() -> None:
    rig = Rig(at_master=False)
    rig.context.roots.pop(JOB, None)
    rig.ask("describe")
    probes = [effect for effect in rig.context.out if isinstance(effect, Probe)]
    assert [probe.contact for probe in probes] == [rig.leader]
    rig.context.answer(probes[0].token, ProbeDone(probes[0].token, rig.leader, True))
    assert not rig.handler.leadership.leads(JOB)
    rig.ask("describe")
    probe = [effect for effect in rig.context.out if isinstance(effect, Probe)][-1]
    rig.context.answer(probe.token, ProbeDone(probe.token, rig.leader, False))
    assert rig.handler.leadership.leads(JOB), "it tries to lead the job of a dead master"


def test_a_job_that_no_agent_knows_is_not_found() -> None:
    rig = Rig()
    rig.ask("describe", NOWHERE)
    assert rig.answers() == [(NOT_FOUND, rig.answers()[0][1])]
    assert rig.answers()[0][1]["error"] == "there is no such job"


def test_a_change_of_a_job_that_was_seen_and_is_unknown_here_is_asked_again_later() -> None:
    rig = Rig()
    rig.ask("pause", NOWHERE, seen=str(Seen(NOWHERE, "i", 1)))
    assert [status for status, _ in rig.answers()] == [UNAVAILABLE]


@pytest.mark.parametrize(("incarnation", "status"), [("i", OK), ("h", CONFLICT)])
def test_a_deletion_of_the_job_that_is_over_is_answered_as_done(incarnation: str, status: int) -> None:
    rig = Rig()
    rig.handler.leadership.forget(NOWHERE, "i")
    rig.ask("delete", NOWHERE, seen=str(Seen(NOWHERE, incarnation, 1)))
    ((found, body),) = rig.answers()
    assert found == status
    assert status != OK or body == {"state": "deleted"}


def test_a_deletion_without_a_tag_of_a_job_that_is_over_reports_that_it_was_earlier() -> None:
    rig = Rig()
    rig.handler.leadership.forget(NOWHERE, "i")
    rig.ask("delete", NOWHERE)
    assert rig.answers() == [(OK, {"state": "deleted", "earlier": True})]


@pytest.mark.parametrize("fields", [{"seen": "rubbish"}, {"text": "CREATE JOB"}])
def test_a_submission_that_cannot_be_read_is_refused(fields: dict[str, str]) -> None:
    rig = Rig()
    manifest = replace(rig.master.term.manifest, text=fields.get("text", TEXT))
    rig.handler.on_submit(Submit(manifest, STRANGER, TOKEN, seen=fields.get("seen", "")))
    ((status, body),) = rig.answers()
    assert status == CONFLICT
    assert rig.context.name in f"{body['error']} {body['hint']}", "the refusing agent is named"


def test_a_request_behind_a_cut_link_is_passed_on_by_voters_and_no_agent_takes_over() -> None:
    rig = Rig(at_master=False)
    rig.context.roots.pop(JOB, None)
    rig.ask("describe")
    (probe,) = [effect for effect in rig.context.out if isinstance(effect, Probe)]
    assert probe.others
    rig.context.out.clear()
    rig.context.answer(probe.token, ProbeDone(probe.token, rig.leader, True, others=True))
    voters = {each.id for each in rig.master.term.terms.acceptors} - {rig.leader.id, rig.context.me.id}
    assert {to.id for to, _ in rig.passed_on()} == voters
    assert {message.hops for _, message in rig.passed_on()} <= {1}
    assert not rig.handler.leadership.leads(JOB)


def test_a_submission_is_passed_on_to_the_master_a_limited_number_of_times() -> None:
    rig = Rig(at_master=False)
    message = Submit(rig.master.term.manifest, STRANGER, TOKEN)
    rig.handler.on_submit(message)
    assert rig.passed_on() == [(rig.leader, replace(message, hops=1))]
    rig.handler.on_submit(replace(message, hops=HOPS_MAX))
    assert [status for status, _ in rig.answers()] == [UNAVAILABLE]


def test_a_master_answers_the_same_text_as_unchanged() -> None:
    rig = Rig()
    rig.handler.on_submit(Submit(rig.master.term.manifest, STRANGER, TOKEN))
    ((status, body),) = rig.answers()
    assert (status, body["state"]) == (OK, "unchanged")


def ask_all(rig: Rig) -> None:
    rig.handler.on_ask_all(AskAll("list", b"{}", STRANGER, TOKEN))


def test_a_question_for_all_is_multicast_and_the_answers_are_gathered_in_order() -> None:
    rig = Rig()
    rig.context.roots[ids.ALL_AGENTS] = None
    ask_all(rig)
    (publish,) = [effect for effect in rig.context.out if isinstance(effect, Publish)]
    assert (publish.tree, publish.timeout_s) == (ids.ALL_AGENTS, QUESTION_S)
    assert unpack(publish.body) == Question("list", b"{}")
    answers = ((b"b", b"2"), (b"a", b"1"), (b"c", b""), (b"d", b"3\n4"))
    rig.context.answer(publish.token, PublishDone(ids.ALL_AGENTS, 1, answers, 9, publish.token))
    (effect,) = [each for each in rig.context.out if isinstance(each, Send)]
    assert isinstance(effect.message, Answered)
    body, data = read_answer(effect.message, effect.payload)
    assert (body, data) == ({"asked": {"answered": 4, "expected": 9}}, b"1\n2")


def test_a_question_for_all_waits_for_the_tree_of_all_and_is_refused_in_time() -> None:
    rig = Rig()
    rig.context.roots.pop(ids.ALL_AGENTS, None)
    ask_all(rig)
    run(rig.context, rig.context.now + ROOT_TRIES * ROOT_AGAIN_S - 0.01)
    assert rig.answers() == []
    run(rig.context, rig.context.now + 0.02)
    ((status, body),) = rig.answers()
    assert (status, body["error"]) == (UNAVAILABLE, "this part of the overlay is not ready")


@pytest.mark.parametrize(
    ("verb", "body", "jobs"),
    [
        ("list", {}, ["shop/top"]),
        ("whose", {"job": "shop/top"}, ["shop/top"]),
        ("whose", {"job": "shop/other"}, []),
        ("fly", {}, []),
    ],
)
def test_an_agent_gives_its_share_of_an_answer_of_all(
    verb: str, body: dict[str, Any], jobs: list[str]
) -> None:
    rig = Rig()
    items = decode_body(rig.handler.on_question(Question(verb, encode_json(body))))["items"]
    assert [item["job"] for item in items] == jobs


def test_a_question_to_all_that_cannot_be_read_has_no_share() -> None:
    rig = Rig()
    assert decode_body(rig.handler.on_question(Question("list", b"rubbish"))) == {"items": []}
    assert rig.context.stats["control.malformed"] == 1


def test_a_share_has_a_limited_size() -> None:
    rig = Rig()
    tree = {
        "root": False,
        "subscribed": True,
        "children": ["x" * 1000],
        "parent": None,
        "depth": 1,
        "size": 2,
    }
    trees = [{"tree": f"{number:040x}", **tree} for number in range(200)]
    rig.context.facts = lambda topic: {"items": trees} if topic == "trees" else {}
    share = rig.handler.on_question(Question("trees", b"{}"))
    assert ANSWER_BYTES_MAX / 4 < len(share) <= ANSWER_BYTES_MAX
    assert decode_body(share)["items"][0]["tree"] == f"{0:040x}"
