from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elfmesh.text import printable, suggest


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
