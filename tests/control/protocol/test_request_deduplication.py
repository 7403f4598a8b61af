"""Words that a manifest carries: the same request has one name everywhere, and no two share it."""

from __future__ import annotations

from elfmesh.control.protocol.request_deduplication import (
    MADE_MAX,
    WAITED_S,
    WORDS_MAX,
    Once,
    word,
    words,
)
from elfmesh.machine import Contact


def asker(number: int = 1, boot: int = 1) -> Contact:
    return Contact(bytes([number]) * 20, "127.0.0.1", 7400 + number, boot)


def test_a_word_is_of_one_asker_one_life_and_one_number() -> None:
    asked = [word(asker(n, boot), token) for n in (1, 2) for boot in (1, 2) for token in (1, 2, 12)]
    assert len(set(asked)) == len(asked)
    assert word(asker(), 7) == word(Contact(asker().id, "10.0.0.1", 1, 1), 7)  # wherever it was reached


def test_the_newest_words_stay() -> None:
    kept: tuple[bytes, ...] = ()
    for token in range(WORDS_MAX + 3):
        kept = words(kept, word(asker(), token))
    assert kept == tuple(word(asker(), token) for token in range(3, WORDS_MAX + 3))


def test_a_word_is_too_late_when_it_was_answered_or_nobody_waits_for_it_and_not_when_it_was_obeyed() -> None:
    once = Once()
    assert not once.came(asker(), 1, 0.0)
    assert not once.came(asker(), 1, WAITED_S), "its client asks again"
    assert once.came(asker(), 1, WAITED_S + 1)
    assert not once.came(asker(), 2, 0.0)
    once.passed(asker(), 2, b"job")
    once.answered(asker(), 2)
    assert not once.came(asker(), 2, 1.0), "not here: it is passed on again"
    assert once.came(asker(), 2, WAITED_S + 1)
    assert not once.came(asker(), 3, 0.0)
    once.made(asker(), 3, "incarnation")
    once.answered(asker(), 3)
    assert not once.came(asker(), 3, WAITED_S + 1), "it is answered as it was"
    once.undone(asker(), 3)
    assert once.of(asker(), 3) is None
    once.answered(asker(), 3)
    assert once.came(asker(), 3, 1.0)
    once.answered(asker(), 4)
    assert not once.came(asker(), 4, 0.0), "a question, not a change"


def test_a_word_that_was_passed_on_at_one_seat_of_a_job_is_not_taken_for_passed_on_at_the_other() -> None:
    """Its home would send it back each time that it comes again, and it would be obeyed under each number."""
    once = Once()
    once.came(asker(), 1, 0.0)
    once.passed(asker(), 1, b"other seat")
    assert once.was_passed(asker(), 1, b"other seat")
    assert not once.was_passed(asker(), 1, b"home")
    assert once.of(asker(), 1) is None
    assert once.came(asker(), 1, WAITED_S + 1)


def test_the_memory_of_words_is_bounded() -> None:
    once = Once()
    for token in range(MADE_MAX + 5):
        once.came(asker(), token, 0.0)
    assert len(once._known) == len(once._since) == MADE_MAX
