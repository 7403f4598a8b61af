"""Credentials in logs: whatever a job, a tap or a report reads, their values are not there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.agent.authority.redact import UNSHOWN, Redactor
from elfmesh.agent.parsers import StreamFormat
from elfmesh.agent.parsers.base import Parsed
from elfmesh.control.authority.fields import DENIED, FieldRules

SECRET = "hunter2sEcReT"
HIDE = Redactor(FieldRules())


def parsed(block: str, *columns: str, form: str = "json", hide: Redactor = HIDE) -> Parsed:
    parser = StreamFormat(form).parser("x")
    return hide(parser, parser.parse(block.encode(), columns))


def column(block: str, name: str, **other: Any) -> list[Any]:
    values: list[Any] = parsed(block, name, **other).arrays[name].to_pylist()
    return values


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "Password",
        "user.PASSWORD",
        "db_password",
        "passwd",
        "Authorization",
        "Proxy-Authorization",
        "cookie",
        "Set-Cookie",
        "set_cookie",
        "token",
        "access_token",
        "accessToken",
        "X-Api-Key",
        "apiKey",
        "api_key",
        "client_secret",
        "secret",
        "cookies",
    ],
)
def test_names_are_meant_in_every_spelling(name: str) -> None:
    assert FieldRules().hides_path(name)


@pytest.mark.parametrize("name", ["path", "tokens_used", "author", "passwordless", "secretary", "user.name"])
def test_other_names_are_not(name: str) -> None:
    assert not FieldRules().hides_path(name)


def test_a_hidden_field_is_null_and_its_neighbours_stay() -> None:
    block = json.dumps({"user": {"password": SECRET, "n": 1}, "path": "/"}) + "\n"
    found = parsed(block, "user.password", "user.n", "path", "user", "_raw")
    assert [found.arrays[name].to_pylist() for name in ("user.password", "user.n", "path")] == [
        [None], [1], ["/"],
    ]  # fmt: skip
    assert found.arrays["user"].to_pylist() == ['{"password":null,"n":1}']
    assert found.arrays["_raw"].to_pylist() == ['{"user":{"password":null,"n":1},"path":"/"}']


@pytest.mark.parametrize(
    "record",
    [
        {"a": [{"b": {"Set-Cookie": SECRET}}]},
        {"log": json.dumps({"token": SECRET}) + "\n"},
        {"headers": {"Authorization": f"Bearer {SECRET}", "Cookie": f"a=1; sid={SECRET}"}},
        {"msg": f"login with password={SECRET} failed"},
        {"msg": f'curl -H "Authorization: Bearer {SECRET}" -H "Cookie: sid={SECRET}; b={SECRET}"'},
        {"msg": "x" + json.dumps({"api_key": SECRET})},
        {"password": {"deep": [SECRET]}},
    ],
)
def test_at_any_depth_and_in_json_in_text(record: dict[str, Any]) -> None:
    text = json.dumps(record)
    assert SECRET not in str(column(text + "\n", "_raw"))
    escaped = text.replace("oken", "\\u006fken").replace("assword", "\\u0061ssword")
    assert SECRET not in str(column(escaped + "\n", "_raw")), "the name is written with an escape"


@pytest.mark.parametrize(
    "line",
    [
        f"level=info password={SECRET} n=1",
        f'level=info token="{SECRET} {SECRET}" n=1',
        f"level=info Api-Key: {SECRET}",
        f"GET /login?access_token={SECRET}&x=1",
        f"authorization='Basic {SECRET}' n=1",
    ],
)
def test_words_of_a_line_behind_such_a_name(line: str) -> None:
    (found,) = column(f"ts=2020-01-01T00:00:00Z {line}\n", "_raw", form="logfmt")
    assert SECRET not in found
    assert found.startswith("ts=2020-01-01T00:00:00Z ")


def test_what_holds_nothing_hidden_stays_byte_for_byte() -> None:
    lines = ['{"a" : 1.50, "b":"\\u00e9", "path":"/token/1"}', '{"message": "the token expired"}']
    assert column("\n".join(lines) + "\n", "_raw") == lines


def test_a_line_whose_fields_have_places_is_null_if_one_is_hidden() -> None:
    block = f"user,password\nann,{SECRET}\n"
    found = parsed(block, "user", "password", "_raw", form="csv")
    assert [found.arrays[name].to_pylist() for name in ("user", "password", "_raw")] == [
        ["ann"], [None], [None],
    ]  # fmt: skip
    broken = parsed(f"user,password\nann,{SECRET},3,4\n", "user", form="csv")
    assert SECRET not in str(broken.samples)
    assert broken.samples in ([UNSHOWN], [])


def test_reports_of_lines_that_cannot_be_parsed_show_no_values() -> None:
    found = parsed(f'{{"password": "{SECRET}", \n', "path")
    assert found.errors == 1
    assert SECRET not in str(found.samples)


def test_the_local_configuration_says_otherwise() -> None:
    block = json.dumps({"csrf_token": "c", "token": SECRET}) + "\n"
    allowing = Redactor(FieldRules(DENIED, ["csrf_token"]))
    assert column(block, "csrf_token", hide=allowing) == ["c"]
    assert column(block, "token", hide=allowing) == [None]
    assert column(block, "token", hide=Redactor(FieldRules(()))) == [SECRET]


NAMES = st.sampled_from(["a", "token", "b", "Cookie"]) | st.text(max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


@given(VALUES)
def test_nothing_below_a_hidden_name_is_left(value: Any) -> None:
    block = json.dumps({"v": {"token": [SECRET, value], "w": {"Cookie": SECRET}}, "x": value}) + "\n"
    assert SECRET not in str(column(block, "_raw"))
    assert SECRET not in str(column(block, "v"))
