"""The ring of steps: what is kept, and which step each one names as its cause."""

from __future__ import annotations

from elfmesh.control.causes import NO_CAUSE, STEPS_MAX, Causes

JOB, OTHER = b"j" * 20, b"o" * 20
ME = b"a" * 20


def kinds(causes: Causes, interval: int, tree: bytes = JOB) -> list[str]:
    return [step.kind for step in causes.of({tree}, interval)]


def test_the_newest_steps_are_kept() -> None:
    causes = Causes(ME, 1, limit=3)
    for interval in range(5):
        causes.note(float(interval), "sealed", JOB, interval, interval + 1)
    assert [kinds(causes, interval) for interval in range(5)] == [[], [], ["sealed"], ["sealed"], ["sealed"]]
    assert causes.kept_from({JOB}) == 2
    assert causes.kept_from({OTHER}) is None


def test_a_step_is_about_a_range_of_intervals_and_one_tree() -> None:
    causes = Causes(ME, 1)
    causes.note(0.0, "sealed", JOB, 5, 8)
    causes.note(0.0, "sealed", OTHER, 7, 9)
    causes.note(0.0, "sealed", JOB, 6, 6)
    assert [len(kinds(causes, interval)) for interval in range(4, 9)] == [0, 1, 1, 1, 0]
    assert kinds(causes, 8, OTHER) == ["sealed"]


def test_steps_of_one_handling_follow_from_each_other_and_from_the_message() -> None:
    causes = Causes(ME, 1)
    causes.follow(b"from a peer")
    causes.note(0.0, "received", JOB, 5, 6, peer=b"b" * 20, detail=b"\x03")
    causes.note(0.0, "merged", JOB, 5, 6)
    causes.note(0.0, "published", JOB, 5, 6, leads=False)
    causes.note(0.0, "decided", JOB, 5, 6)
    received, merged, published, decided = causes.of({JOB}, 5)
    assert (received.cause, received.peer) == (b"from a peer", b"b" * 8)
    assert merged.cause == received.name
    assert published.cause == decided.cause == merged.name
    assert causes.current == decided.name


def test_what_is_done_for_another_interval_does_not_follow_from_the_one_before() -> None:
    causes = Causes(ME, 1)
    causes.note(0.0, "collected", JOB, 5, 7)
    causes.note(0.0, "decided", JOB, 5, 6)
    causes.note(0.0, "decided", JOB, 6, 7)
    collected, decided = causes.of({JOB}, 6)
    assert decided.cause == collected.name


def test_an_answer_of_a_thread_follows_from_the_newest_step_about_its_interval() -> None:
    causes = Causes(ME, 1)
    causes.note(0.0, "decided", JOB, 5, 6)
    causes.note(0.0, "decided", JOB, 6, 7)
    causes.note(0.0, "decided", OTHER, 5, 6)
    causes.follow(b"")
    causes.note(1.0, "made", JOB, 5, 6)
    decided, made = causes.of({JOB}, 5)
    assert made.cause == decided.name


def test_a_timer_hands_on_what_it_has_kept() -> None:
    causes = Causes(ME, 1)
    causes.note(0.0, "due", JOB, 5, 6)
    kept = causes.here
    causes.note(0.0, "sealed", OTHER, 9, 10)
    causes.follow(*kept)
    causes.note(3.0, "decided", JOB, 5, 6)
    due, decided = causes.of({JOB}, 5)
    assert decided.cause == due.name
    causes.follow(b"of a peer")
    assert causes.here == NO_CAUSE


def test_names_of_two_boots_and_of_two_agents_differ() -> None:
    names = set()
    for agent, boot in ((ME, 1), (ME, 2), (b"b" * 20, 1)):
        causes = Causes(agent, boot)
        causes.note(0.0, "sealed", JOB, 0, 1)
        names.add(causes.current)
    assert len(names) == 3


def test_a_full_ring_goes_on() -> None:
    causes = Causes(ME, 1)
    for number in range(STEPS_MAX + 10):
        causes.note(0.0, "sealed", JOB, number, number + 1)
    assert causes.kept_from({JOB}) == 10
