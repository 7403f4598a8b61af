from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elfmesh.text import edit_distance, printable, suggest


@given(st.text())
def test_nothing_printable_can_move_the_cursor(text: str) -> None:
    shown = printable(text)
    assert all(ord(char) >= 32 and not 127 <= ord(char) <= 159 for char in shown)


def test_escapes_are_shown_and_letters_stay() -> None:
    assert printable("a\x1b[2Jb\nü漢\u202e") == "a\\x1b[2Jb\\x0aü漢\\u202e"


def test_a_misspelt_word_gets_a_suggestion() -> None:
    assert suggest("staus", ["status", "bytes"]) == "Did you mean status?"
    assert suggest("TS", ["ts"]) == "Did you mean ts?"
    assert suggest("zzz", ["status"]) == ""
    assert suggest("", ["a", "status"]) == ""


def test_a_suggestion_is_at_most_two_letters_away_and_one_in_short_words() -> None:
    assert suggest("to_number", ["row_number", "format_number"]) == ""
    assert suggest("to_char", ["char", "to_date"]) == ""
    assert suggest("stattus", ["status"]) == "Did you mean status?"
    assert suggest("vol", ["nvl"]) == ""
    assert suggest("lgo", ["top", "log"]) == "Did you mean log?"
    assert suggest("sume", ["some", "sum"]) == "Did you mean some?"
    assert suggest("b", ["a"]) == suggest("", ["a"]) == ""
    assert suggest("udaf", ["add"]) == ""


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_the_distance_of_two_words_is_symmetric_and_bounded_by_their_lengths(one: str, other: str) -> None:
    distance = edit_distance(one, other)
    assert distance == edit_distance(other, one)
    assert (distance == 0) == (one == other)
    assert abs(len(one) - len(other)) <= distance <= max(len(one), len(other))


def test_two_neighbours_that_are_swapped_are_one_edit() -> None:
    assert edit_distance("hots", "host") == 1
    assert edit_distance("kitten", "sitting") == 3
