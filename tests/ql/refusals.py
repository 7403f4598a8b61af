"""Tables of wrong queries: the place, the message and the hint that each is refused with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from elfmesh.errors import QueryError
from elfmesh.ql import parse
from tests.ql.conftest import run

Wrong = tuple[str, int, int, str, str]
"""A text, the line and the column of the error (0: any column), and parts of its message and of its hint."""


def refusing(*table: Wrong) -> Callable[..., None]:
    """Return the test that parsing refuses each text of a table where it is wrong."""

    @pytest.mark.parametrize(
        ("text", "line", "column", "message", "hint"), table, ids=lambda given: str(given)[:50]
    )
    def test(text: str, line: int, column: int, message: str, hint: str) -> None:
        assert_refused(text, line, column, message, hint)

    return test


def assert_refused(text: str, line: int, column: int, message: str, hint: str) -> None:
    """Parsing refuses the text at this place, in our words and not in those of the SQL parser."""
    with pytest.raises(QueryError) as caught:
        parse(text)
    error = caught.value
    assert message in error.message
    assert hint in error.hint
    assert (error.line, error.column if column else 0) == (line, column)
    assert "\n" not in error.message
    assert "Token" not in str(error)
    assert "sqlglot" not in str(error)
    assert "elf_" not in str(error)


def refusal(text: str, **columns: Any) -> str:
    """`column: message | hint` of the error that running a text of one line over these columns raises."""
    with pytest.raises(QueryError) as caught:
        run(text, columns)
    return f"{caught.value.column}: {caught.value.message} | {caught.value.hint}"
