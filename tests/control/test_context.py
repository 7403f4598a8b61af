"""Timers in their order, questions that are answered once, and agents that are gone for a moment."""

from __future__ import annotations

import random
from typing import Any

import pytest

from elfmesh.control import context as module
from elfmesh.control.context import GONE_S, NOT_ROOT_S, PUBLISH_GRACE_S, QUESTION_S, ROUND_S, Alarm, Context
from elfmesh.control.protocol.messages import Answered, pack
from elfmesh.machine import Contact, Send
from elfmesh.overlay.events import Lookup
from elfmesh.srt.events import Publish

ME, OTHER = (Contact(bytes([at]) * 20, "10.0.0.1", 7400, at) for at in (1, 2))
ANSWER = Answered(0, 200, 0)


@pytest.fixture
def context() -> Context:
    return Context(ME, "me", random.Random(1), lambda topic: {})


def fire(context: Context, now: float) -> None:
    context.now = now
    context.fire()


def test_timers_of_one_time_fire_in_the_order_they_were_set(context: Context) -> None:
    fired: list[str] = []
    for name, delay in (("c", 2.0), ("a", 1.0), ("b", 1.0), ("d", 3.0)):
        context.after(delay, lambda name=name: fired.append(name))  # type: ignore[misc]  # mypy cannot infer it
    fire(context, 2.0)
    assert fired == ["a", "b", "c"]
    assert context.deadline == 3.0


def test_a_timer_that_was_taken_back_neither_fires_nor_counts_as_a_deadline(context: Context) -> None:
    fired: list[int] = []
    first = context.after(1.0, lambda: fired.append(1))
    context.after(2.0, lambda: fired.append(2))
    first.cancel()
    assert context.deadline == 2.0
    fire(context, 5.0)
    assert fired == [2]
    after: float | None = context.deadline
    assert after is None


def test_the_upkeep_of_many_jobs_shares_the_rounds_of_an_agent(context: Context) -> None:
    times = set[float]()
    for at in range(100):
        context.now = 0.01 * at
        timer = context.in_round(5.0, lambda: None)
        assert 5.0 <= timer.at - context.now <= 1.25 * 5.0 + ROUND_S
        times.add(round(timer.at, 6))
    assert len(times) <= 4
    assert len({round(at % ROUND_S, 6) for at in times}) == 1


def test_agents_have_different_rounds() -> None:
    others = [Contact(bytes(18) + number.to_bytes(2), "host", 1) for number in (0, 0x4000)]
    found = [
        Context(each, "", random.Random(1), lambda topic: {}).in_round(5.0, lambda: None) for each in others
    ]
    assert [each.at % ROUND_S for each in found] == [0.0, 0.25]


def test_an_alarm_fires_once_for_each_setting(context: Context) -> None:
    fired: list[float] = []
    alarm = Alarm(context, lambda: fired.append(context.now))
    alarm.wake(1.0)
    alarm.wake(5.0)
    fire(context, 1.0)
    assert (fired, alarm.is_set) == ([1.0], False), "a later time does not put off an earlier one"
    alarm.wake(5.0)
    alarm.wake(2.0)
    fire(context, 6.0)
    assert fired == [1.0, 6.0]
    alarm.set(1.0)
    alarm.set_at(9.0)
    assert alarm.is_set
    fire(context, 8.0)
    assert fired == [1.0, 6.0], "the last setting counts"
    alarm.cancel()
    fire(context, 9.0)
    assert fired == [1.0, 6.0]
    assert not alarm.is_set


def test_a_question_is_answered_once_or_given_up(context: Context) -> None:
    found: list[Any] = []
    context.lookup(b"k", found.append)
    context.lookup(b"k", found.append)
    first, second = (effect.token for effect in context.out if isinstance(effect, Lookup))
    assert first != second
    for event in ("yes", "again"):
        context.answer(first, event)
    assert found == ["yes"]
    fire(context, QUESTION_S)
    assert found == ["yes", None]
    context.answer(second, "late")
    assert found == ["yes", None]


def test_the_master_of_a_job_answers_once_or_is_silent(context: Context) -> None:
    found: list[tuple[Answered | None, bytes]] = []
    for _ in range(2):
        context.ask_job(b"j" * 20, "describe", b"{}", 3.0, lambda *given: found.append(given))
    first, _ = context._asked
    answer = Answered(first, 200, 0)
    context.on_answered(answer, b"x")
    context.on_answered(answer, b"repeated")
    fire(context, 3.0)
    assert found == [(answer, b"x"), (None, b"")]


def test_a_multicast_on_the_tree_of_another_root_fails_soon(context: Context) -> None:
    found: list[Any] = []
    context.publish(b"t", ANSWER, 5.0, found.append)
    assert (context.out, found, context.deadline) == ([], [], NOT_ROOT_S)
    fire(context, NOT_ROOT_S)
    assert found == [None]
    context.roots[b"t"] = None
    context.publish(b"t", ANSWER, 5.0, found.append)
    assert isinstance(context.out[0], Publish)
    assert context.deadline == NOT_ROOT_S + 5.0 + PUBLISH_GRACE_S


def test_a_message_to_ourselves_does_not_leave(context: Context) -> None:
    context.send(ME, ANSWER, b"mine")
    context.send(OTHER, ANSWER, b"theirs", lane=1)
    assert list(context.inbox) == [(ANSWER, b"mine")]
    assert context.out == [Send(OTHER, ANSWER, b"theirs", 1)]


def test_an_agent_that_was_lost_is_gone_until_it_is_met_or_a_while_has_passed(context: Context) -> None:
    assert not context.is_gone(b"a")
    context.lost(b"a")
    context.lost(b"b")
    context.met(b"b")
    assert (context.is_gone(b"a"), context.is_gone(b"b")) == (True, False)
    assert (context.gone_since(b"a"), context.gone_since(b"b")) == (0.0, None)
    context.now = GONE_S
    assert not context.is_gone(b"a")
    assert context.gone_since(b"a") is None
    context.lost(b"a")
    context.grown(b"a")
    assert (context.is_gone(b"a"), context.grown_at, context.changed_at) == (False, GONE_S, GONE_S)
    context.lost(b"a", stopped=True)
    context.lost(b"b")
    assert (context.has_stopped(b"a"), context.has_stopped(b"b")) == (True, False)
    context.met(b"a")
    assert not context.has_stopped(b"a")


def test_only_so_many_agents_that_are_gone_are_remembered(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GONE_MAX", 2)
    for agent in (b"a", b"b", b"a", b"c"):
        context.lost(agent)
    assert [context.is_gone(agent) for agent in (b"a", b"b", b"c")] == [True, False, True]


def test_boots_of_an_agent_number_their_questions_apart() -> None:
    lives = [Context(each, "me", random.Random(1), lambda topic: {}) for each in (ME, OTHER)]
    first, second = ({life.token() for _ in range(1000)} for life in lives)
    assert not first & second


def test_a_malformed_body_is_counted_and_gives_no_message(context: Context) -> None:
    assert context.unpacked(pack(ANSWER)) == ANSWER
    assert context.unpacked(b"\xc1rubbish") is None
    assert context.stats["control.malformed"] == 1
