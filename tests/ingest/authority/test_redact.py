"""Credentials in logs: whatever a job, a tap or a report reads, their values are not there."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.control.jobs.hidden_fields import DENIED, FieldRules
from elfmesh.ingest.authority.redact import UNSHOWN, Redactor
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.parsers.base import Parsed

SECRET = "hunter2sEcReT"
HIDE = Redactor(FieldRules())


def parsed(block: str, *columns: str, form: str = "json", hide: Redactor = HIDE) -> Parsed:
    parser = StreamFormat(form).parser("x")
    return hide(parser, parser.parse(block.encode(), columns))


def column(block: str, name: str, **other: Any) -> list[Any]:
    values: list[Any] = parsed(block, name, **other).arrays[name].to_pylist()
    return values


def steps(work: Callable[[], object]) -> int:
    """Lines of Python that it takes."""
    count = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


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


@pytest.mark.parametrize(
    "text",
    [
        'x "password"=>"SECRET" y',
        '{:password=>"SECRET"}',
        'INFO {"password":"ab\\"SECRET"}',
        'msg="{\\"password\\":\\"ab\\\\\\"SECRET\\"}"',
        '{"k":"{\\"password\\": \\"SECRET"}',
        "password='a\\'SECRET' n=1",
        'password="SECRET and no end',
        "password := SECRET",
        "password\t=\tSECRET",
        "password[]=SECRET",
        "user[password]=SECRET",
        "user%5Bpassword%5D=SECRET",
        "api__key=SECRET",
        "aws_secret_access_key=SECRET",
        "<password>SECRET</password>",
        "run --password SECRET --n 1",
        "token: Bearer SECRET",
        "token={'a': 'SECRET', 'b': {}} n=1",
        "tokens n, secrets=[a, SECRET]",
        'Authorization: Digest username="bob", response="SECRET"',
        'authorization: OAuth a="x", oauth_signature="SECRET"',
        'Cookie: sid="a"; s=SECRET',
        '"Cookie": "a=\\"b\\"; c=SECRET"',
        "Authorization: Bearer\n SECRET",
        "Authorization: Bearer\r\n\tSECRET\r\nHost: x",
        '"pass\\u0077ord": "SECRET" and text',
        "password: `SECRET`",
    ],
)
def test_however_a_program_writes_names_and_values(text: str) -> None:
    shown = HIDE.text(text.replace("SECRET", SECRET))
    assert SECRET not in shown
    assert "***" in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('"GET /" "Authorization: Basic SECRET" 200', '"GET /" "Authorization: ***" 200'),
        ('x "password": "SECRET", "n": 1', 'x "password": ***, "n": 1'),
        ("<password>SECRET</password> n", "<password>***</password> n"),
        ("Cookie: a=SECRET\nHost: x", "Cookie: ***\nHost: x"),
        ("token=SECRET&n=1", "token=***&n=1"),
        ("<a:token>SECRET</a:token> n > 1", "<a:token>***</a:token> n > 1"),
        ("the password of ann has expired", None),
        ("tokens > 5 and \\u0041", None),
    ],
)
def test_what_stands_beside_a_value_stays(text: str, shown: str | None) -> None:
    assert HIDE.text(text.replace("SECRET", SECRET)) == (text if shown is None else shown)


@pytest.mark.parametrize(
    "part",
    ['"cookie: ', "password=(x) ", "password=(", 'password="\\', "--password ", '\\"token\\":', "a" * 9],
)
def test_no_line_costs_more_than_its_length(part: str) -> None:
    """Steps of the interpreter, not seconds: they grow with the length."""
    costs = [steps(partial(HIDE.text, part * count)) for count in (500, 2000)]
    assert costs[1] < 6 * costs[0] + 1000


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


def test_the_local_configuration_overrides_the_hidden_names() -> None:
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
