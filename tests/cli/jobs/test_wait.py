"""`elf wait`: the conditions, and the time limit."""

from __future__ import annotations

import threading

import pytest

from elfmesh.control.protocol.events import Reply
from tests.cli.remote import api, backend, elf
from tests.control.fakes import FakeBackend

__all__ = ["api", "backend"]

ALIVE, DEAD = {"status": "alive"}, {"status": "dead"}


def described(latest: int | None, completeness: float | None) -> Reply:
    return Reply(0, 200, {"job": "shop/top", "latest": latest, "completeness": completeness})


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), "give --agents, --job or both"),
        (("--agents", "1", "--complete"), "--complete: needs --job"),
        (("--agents", "0"), "0 is not in the range"),
        (("--agents", "1", "--timeout", "soon"), "'soon' is not a duration"),
    ],
)
def test_wrong_options(arguments: tuple[str, ...], error: str) -> None:
    ran = elf("wait", *arguments)
    assert ran.exit_code in (2, 64, 78)
    assert error in ran.stderr


def test_dead_agents_do_not_count(api: str, backend: FakeBackend) -> None:
    backend.lists("agents", [ALIVE, DEAD])
    assert elf("wait", "--agents", "1", "--api", api).stderr == "1 agent is alive\n"
    ran = elf("wait", "--agents", "2", "--timeout", "0 s", "--api", api)
    assert ran.exit_code == 1
    assert "0 s are over: 1 of 2 agents are alive" in ran.stderr


def test_an_agent_that_does_not_answer_is_asked_again() -> None:
    ran = elf("wait", "--agents", "1", "--timeout", "0 s", "--api", "127.0.0.1:1")
    assert ran.exit_code == 1
    assert "no agent answers at 127.0.0.1:1" in ran.stderr


def test_a_job_that_does_not_exist_is_not_waited_for(api: str, backend: FakeBackend) -> None:
    backend.replies["describe"] = Reply(0, 404, {"error": "there is no such job: shop/top"})
    ran = elf("wait", "--job", "shop/top", "--api", api)
    assert ran.exit_code == 1
    assert "there is no such job" in ran.stderr


def test_only_a_new_result_counts_as_complete(
    api: str, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A complete result from before the restart of an agent says nothing about the fleet of now."""
    answers = iter([described(5, 1.0), described(6, 0.5), described(7, 1.0)])
    backend.replies["describe"] = next(answers)

    def next_answer(seconds: float) -> None:
        backend.replies["describe"] = next(answers)

    monkeypatch.setattr("elfmesh.cli.jobs.wait.time.sleep", next_answer)
    ran = elf("wait", "--job", "shop/top", "--complete", "--api", api)
    assert (ran.exit_code, ran.stderr) == (0, "shop/top: interval 7, completeness 1\n")
    assert elf("wait", "--job", "shop/top", "--api", api).exit_code == 0


def test_a_complete_result_from_before_the_wait_is_called_old(api: str, backend: FakeBackend) -> None:
    backend.replies["describe"] = described(5, 1.0)
    ran = elf("wait", "--job", "shop/top", "--complete", "--timeout", "0 s", "--api", api)
    assert ran.exit_code == 1
    assert "no result of shop/top is newer than interval 5, the newest at the start" in ran.stderr


def test_a_first_result(api: str, backend: FakeBackend) -> None:
    backend.replies["describe"] = described(None, None)
    timer = threading.Timer(0.3, lambda: backend.replies.update(describe=described(0, 1.0)))
    timer.start()
    ran = elf("wait", "--job", "shop/top", "--complete", "--api", api)
    timer.join()
    assert (ran.exit_code, ran.stderr) == (0, "shop/top: interval 0, completeness 1\n")
