"""When an agent asks which jobs of its streams run."""

from __future__ import annotations

from elfmesh.control.member.job_questions import ASK_ALWAYS_S, ASK_S, JobQuestions
from elfmesh.control.protocol.messages import WhatRuns, unpack
from elfmesh.overlay.events import Route
from tests.control.contexts import new_context
from tests.control.register.support import run

JITTER = 1.25


class Rig:
    """An agent with two streams that has begun to ask."""

    def __init__(self) -> None:
        self.context = new_context(1)
        self.questions = JobQuestions(self.context, lambda: ("clicks", "logs"))
        self.questions.soon()

    def asked(self, until: float = 0.0) -> list[str]:
        """The streams that are asked about until then."""
        run(self.context, until)
        out, self.context.out = self.context.out, []
        messages = [unpack(effect.body) for effect in out if isinstance(effect, Route)]
        return [message.stream for message in messages if isinstance(message, WhatRuns)]


def test_an_agent_asks_what_runs_now_and_then_less_and_less_often() -> None:
    rig, early_s = Rig(), sum(ASK_S)
    assert rig.asked() == ["clicks", "logs"]
    assert len(rig.asked(early_s - 0.01)) == 2 * (len(ASK_S) - 1)
    assert len(rig.asked(JITTER * early_s)) == 2
    assert rig.asked(early_s + ASK_ALWAYS_S - 0.01) == []
    assert len(rig.asked(JITTER * (early_s + ASK_ALWAYS_S))) == 2


def test_a_stream_whose_jobs_are_known_is_asked_about_rarely() -> None:
    rig, early_s = Rig(), sum(ASK_S)
    rig.questions.answered("clicks")
    rig.asked()
    assert set(rig.asked(early_s)) == {"logs"}
    assert "clicks" in rig.asked(JITTER * (early_s + ASK_ALWAYS_S))


def test_an_agent_that_is_asked_to_search_again_asks_about_all_streams_and_keeps_one_timer() -> None:
    rig, early_s = Rig(), sum(ASK_S)
    rig.questions.answered("clicks")
    rig.asked(JITTER * early_s)
    rig.questions.soon()
    assert rig.asked(JITTER * early_s) == [], "the question that is due follows"
    found = rig.asked(JITTER * (early_s + ASK_ALWAYS_S))
    assert set(found) == {"clicks", "logs"}
    assert len(found) <= 2 * len(ASK_S)
