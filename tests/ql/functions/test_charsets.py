"""Character sets, strict notations of bytes, valid UTF-8, and check digits."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.errors import QueryError
from tests.ql.functions.evaluating import values


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("encode('é', 'UTF-8')", b"\xc3\xa9"),
        ("encode('é', 'utf-16')", b"\xfe\xff\x00\xe9"),
        ("encode('', 'UTF-16')", b""),
        ("encode('é', 'UTF-16LE')", b"\xe9\x00"),
        ("encode('a', 'UTF-32')", b"\x00\x00\x00a"),
        ("encode('é', 'US-ASCII')", None),
        ("encode('a', NULL)", None),
        ("decode(X'E9', 'ISO-8859-1')", "é"),
        ("decode(X'FFFEE900', 'UTF-16')", "é"),
        ("decode(X'00E9', 'UTF-16')", "é"),
        ("decode(X'FF', 'UTF-8')", None),
        ("decode(2, 1, 'a', 2, 'b')", "b"),
        ("decode(3, 1, 'a', 2, 'b')", None),
        ("decode(NULL, 1, 'a', NULL, 'b', 'c')", "b"),
        ("decode(3, 1, 'a', 'c')", "c"),
        ("to_binary('abc')", b"\x0a\xbc"),
        ("to_binary('YWI', 'base64')", b"ab"),
        ("to_binary(' YW I=', 'BASE64')", b"ab"),
        ("try_to_binary('YWI==', 'base64')", None),
        ("try_to_binary('YW=I', 'base64')", None),
        ("try_to_binary('0g', 'hex')", None),
        ("try_to_binary('é', 'utf8')", b"\xc3\xa9"),
        ("try_to_binary('a', 'octal')", None),
        ("is_valid_utf8(X'C328')", False),
        ("try_validate_utf8(X'C328')", None),
        ("make_valid_utf8(X'4180')", "A\ufffd"),
        ("luhn_check('79927398713')", True),
        ("luhn_check('79927398714')", False),
        ("luhn_check('')", False),
        ("luhn_check('٣')", False),
        ("quote('it''s')", "'it\\'s'"),
        ("elt(2, 'a', 7)", "7"),
        ("elt(3, 'a', 'b')", None),
        ("elt(1, X'01', X'02')", b"\x01"),
    ],
)
def test_a_value_is_the_one_of_spark(expression: str, expected: Any) -> None:
    assert values(expression) == [expected]


@pytest.mark.parametrize(
    ("expression", "message", "hint"),
    [
        ("encode('a', 'KOI8-R')", "'KOI8-R' is not a character set", "'US-ASCII'"),
        ("encode('a', upper(s))", "the character set of encode must be a constant", "'string'"),
        ("to_binary('a', 'octal')", "'octal' is not a notation of bytes", "'hex', 'utf-8'"),
    ],
)
def test_what_names_nothing_is_refused(expression: str, message: str, hint: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        values(expression, s=["x"])
    assert hint in caught.value.hint
