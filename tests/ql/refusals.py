"""What a query is refused with: the place, the message and the hint, as one line that a table can state."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.errors import QueryError
from elfmesh.ql import parse
from tests.ql.conftest import run

REFUSED = ("text", "line", "column", "message", "hint")
"""The columns of a table of wrong queries: parts of the message and the hint; column 0 is not compared."""


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
