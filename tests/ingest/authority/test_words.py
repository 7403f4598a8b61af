"""Where a hidden value ends in text that is no JSON: rather too much is blanked than too little."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.control.jobs.hidden_fields import FieldRules
from elfmesh.ingest.authority.words import BLANK, Words

RULES = FieldRules()
BLANKED = Words(RULES.deny, RULES.hides)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password=hunter2 user=joe", "password=*** user=joe"),
        ("password: hunter2, user: joe", "password: ***, user: joe"),
        ('"password": "hun\\"ter2", "a": 1', '"password": ***, "a": 1'),
        ("password => 'hunter2'; x", "password => ***; x"),
        ("<password>hunter2</password>", "<password>***</password>"),
        ("login --password hunter2 --user joe", "login --password *** --user joe"),
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ("api_key=abc&x=1", "api_key=***&x=1"),
        ("Cookie: a=b; c=d\nHost: x", "Cookie: ***\nHost: x"),
        ("secret={a: {b: c}} d=1", "secret=*** d=1"),
        ("token=Bearer abc rest", "token=*** rest"),
    ],
)
def test_the_value_behind_a_name_is_blanked_and_nothing_else(text: str, shown: str) -> None:
    assert BLANKED(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "the password is not here",
        "password",
        "password=",
        "user=joe",
        "passwordless=1",
        "tokens 7",
        "a > b",
    ],
)
def test_text_without_a_value_stays_as_it_is(text: str) -> None:
    assert BLANKED(text) == text


@pytest.mark.parametrize(
    "text", ["password='hunter2", 'x={"secret": [hunter2', "secret=(hunter2", 'password="hunter2']
)
def test_a_value_without_an_end_is_blanked_to_the_end_of_the_text(text: str) -> None:
    shown = BLANKED(text)
    assert "hunter2" not in shown
    assert shown.endswith(BLANK)


@given(st.text(alphabet="pasword='\"\\:<>{}[]() \n,;&-", max_size=60))
def test_any_text_is_taken_and_what_was_blanked_stays_so(text: str) -> None:
    shown = BLANKED(text)
    assert BLANKED(BLANKED(shown)) == BLANKED(shown)
