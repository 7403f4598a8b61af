"""Names of fields that hold credentials, however they are spelt and wherever they stand in a path."""

from __future__ import annotations

import pytest

from elfmesh.control.jobs.hidden_fields import FieldRules


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("password", True),
        ("Password", True),
        ("user_PASSWORD", True),
        ("user-pass-word", True),
        ("Set-Cookie", True),
        ("cookies", True),
        ("csrf_token", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("jwt", True),
        ("jwt_claims", False),
        ("tokens_used", False),
        ("cookie_banner", False),
        ("passenger", False),
        ("", False),
    ],
)
def test_names_are_compared_by_letters_and_digits_alone(name: str, hidden: bool) -> None:
    assert FieldRules().hides(name) is hidden


@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        ("request.headers.authorization", True),
        ("authorization.scheme", True),
        ("a['password'][0]", True),
        ('a["pass word"]', True),
        ("C:\\secrets\\x", True),
        ("a.pass.word", True),  # the whole path spells it
        ("user.name", False),
        ("items[3].price", False),
    ],
)
def test_a_path_is_hidden_by_any_of_its_parts(path: str, hidden: bool) -> None:
    assert FieldRules().hides_path(path) is hidden


def test_an_allowed_name_is_not_hidden_and_its_neighbours_are() -> None:
    rules = FieldRules(allow=["csrf-token"])
    assert not rules.hides("CSRF_TOKEN")
    assert rules.hides("token")


def test_rules_without_names_hide_nothing() -> None:
    assert not FieldRules(())
    assert not FieldRules(()).hides_path("user.password")
    assert FieldRules(["x*"]).hides("X-Ray")
