"""The checker of clients' histories: what could have happened passes, what could not is named."""

from __future__ import annotations

import pytest

from tests.linearizable import NEVER, Asked, Undecided, explain, named

A, B = "CREATE JOB sim.a AS one", "CREATE JOB sim.a AS other"
UPDATED = "warm up"


def notified(verb: str, since: float, until: float, text: str = "", **body: object) -> Asked:
    return Asked(verb, since, until, text, 200, body)


def silent(verb: str, since: float, text: str = "") -> Asked:
    return Asked(verb, since, NEVER, text)


def read(until: float, version: int, text: str, incarnation: str = "i", state: str = "running") -> Asked:
    body = {"version": version, "text": text, "incarnation": incarnation, "state": state}
    return Asked("describe", until - 0.1, until, "", 200, body)


NEW = notified("apply", 0.0, 1.0, A, state="new", version=1)
CHANGED = notified("update", 2.0, 3.0, B, state=UPDATED, version=2)

POSSIBLE: dict[str, list[Asked]] = {
    "nothing": [],
    "one after the other": [NEW, read(1.5, 1, A), CHANGED, read(3.5, 2, B)],
    "two at once, in the order of their versions": [
        NEW,
        notified("update", 2.0, 5.0, A, state=UPDATED, version=3),
        notified("update", 2.1, 4.0, B, state=UPDATED, version=2),
    ],
    "an update without an answer was made": [NEW, silent("update", 2.0, B), read(9.0, 2, B)],
    "an update without an answer was not made": [NEW, silent("update", 2.0, B), read(9.0, 1, A)],
    "an update without an answer is made late": [
        NEW,
        silent("update", 2.0, B),
        notified("pause", 4.0, 5.0, state="paused", version=1),
        read(9.0, 2, B, state="paused"),
    ],
    "a read that is behind": [NEW, CHANGED, read(9.0, 1, A)],
    "a delete without an answer, and the job again": [
        NEW,
        read(1.5, 1, A, "i"),
        silent("delete", 2.0),
        notified("apply", 3.0, 4.0, A, state="new", version=1),
        read(5.0, 1, A, "k"),
    ],
    "a master that is asked again tells what is there by then": [
        NEW,
        notified("update", 2.0, 9.0, B, state="unchanged", version=3),
        read(4.0, 2, B),
        notified("update", 5.0, 6.0, A, state=UPDATED, version=3),
    ],
    "what was refused has changed nothing": [NEW, Asked("update", 2.0, 3.0, B, 400), read(4.0, 1, A)],
    "the agent that was asked knows no such job": [NEW, Asked("delete", 2.0, 3.0, "", 404), read(4.0, 1, A)],
    "an undo brings some text back": [
        NEW,
        CHANGED,
        notified("undo", 4.0, 5.0, state=UPDATED, version=3),
        read(6.0, 3, A),
    ],
    "fifteen without an answer": [
        NEW,
        *(silent("update", 2.0 + n, f"{B} {n}") for n in range(15)),
        read(40.0, 4, f"{B} 7"),
    ],
    "forty without an answer, of which versions show that thirty were made": [
        NEW,
        *(silent("update", 2.0 + n, f"{B} {n}") for n in range(40)),
        *(read(50.0 + n, 1 + 6 * n, f"{B} {6 * n}") for n in range(1, 6)),
        notified("pause", 60.0, 61.0, state="paused", version=31),
    ],
}

IMPOSSIBLE: dict[str, tuple[list[Asked], str]] = {
    "an update is made twice": (
        [NEW, CHANGED, notified("update", 4.0, 5.0, A, state=UPDATED, version=3), read(6.0, 4, B)],
        "describe",
    ),
    "an update is lost": (
        [NEW, CHANGED, notified("update", 4.0, 5.0, A, state=UPDATED, version=2)],
        "update",
    ),
    "a text that no client asked for": ([NEW, read(2.0, 1, B)], "describe"),
    "a read of what is to come": ([NEW, read(1.5, 2, B), CHANGED], "describe"),
    "a version that was refused": ([NEW, Asked("update", 2.0, 3.0, B, 400), read(4.0, 2, B)], "describe"),
    "a change that was refused because another came first": (
        [
            NEW,
            CHANGED,
            Asked("update", 2.5, 4.0, A, 409, {"outcome": "refused"}, ("i", 1)),
            read(5.0, 3, A),
        ],
        "describe",
    ),
    "a change of another version than the one that was seen": (
        [
            NEW,
            CHANGED,
            Asked("undo", 4.0, 5.0, "", 200, {"state": "keep", "version": 3}, ("i", 1)),
        ],
        "undo",
    ),
    "founded beside itself": ([NEW, notified("apply", 2.0, 3.0, B, state="new", version=1)], "apply"),
    "a deleted job is changed": (
        [NEW, notified("delete", 2.0, 3.0), notified("update", 4.0, 5.0, B, state=UPDATED, version=2)],
        "update",
    ),
    "results of an incarnation that no client founded": (
        [NEW, read(1.5, 1, A, "i"), read(2.5, 1, A, "k")],
        "describe",
    ),
    "a pause that no client ended": (
        [NEW, notified("pause", 1.6, 1.9), CHANGED, read(4.0, 2, B, state="running")],
        "describe",
    ),
    "in one order to one client and in another to the next": (
        [
            NEW,
            notified("update", 2.0, 3.0, B, state=UPDATED, version=3),
            notified("update", 4.0, 5.0, A, state=UPDATED, version=2),
        ],
        "update",
    ),
}


@pytest.mark.parametrize("name", POSSIBLE)
def test_what_could_have_happened_passes(name: str) -> None:
    assert explain(POSSIBLE[name]) == ""


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_cannot_have_happened_is_named(name: str) -> None:
    history, verb = IMPOSSIBLE[name]
    found = explain(history)
    assert found.startswith("cannot have happened:"), found
    assert verb in found.partition(";")[0], found


def test_a_version_that_its_master_took_back_is_known_only_where_that_may_be() -> None:
    history = [NEW, CHANGED, read(4.0, 3, A)]
    assert explain(history)
    assert explain(history, taken_back=True) == ""


def test_a_history_with_too_many_orders_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.linearizable.STEPS_MAX", 50)
    named_twice = [silent("update", 2.0 + n, f"{B} {n // 2}") for n in range(30)]
    history = [NEW, *named_twice, read(40.0, 9, A)]
    with pytest.raises(Undecided):
        explain(history)


def test_the_job_of_a_text() -> None:
    assert named("  create job shop.top EVERY '1 s' AS SELECT 1") == "shop/top"
    assert named("SELECT 1") == ""
