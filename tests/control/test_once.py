"""Words that a manifest carries: the same request has one name everywhere, and no two share it."""

from __future__ import annotations

from elfmesh.control.once import WORDS_MAX, word, words
from elfmesh.machine import Contact


def asker(number: int = 1, life: int = 1) -> Contact:
    return Contact(bytes([number]) * 20, "127.0.0.1", 7400 + number, life)


def test_a_word_is_of_one_asker_one_life_and_one_number() -> None:
    asked = [word(asker(n, life), token) for n in (1, 2) for life in (1, 2) for token in (1, 2, 12)]
    assert len(set(asked)) == len(asked)
    assert word(asker(), 7) == word(Contact(asker().id, "10.0.0.1", 1, 1), 7)  # wherever it was reached


def test_the_newest_words_stay() -> None:
    kept: tuple[bytes, ...] = ()
    for token in range(WORDS_MAX + 3):
        kept = words(kept, word(asker(), token))
    assert kept == tuple(word(asker(), token) for token in range(3, WORDS_MAX + 3))
