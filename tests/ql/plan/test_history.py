"""Where HISTORY and UNTIL begin in a text, before a duration or a time.

`tests/ql/text/clauses/test_cutter.py` has their refusals.
"""

from __future__ import annotations

import pytest
import sqlglot

from elfmesh.ql.plan.history import begins_range


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("HISTORY '1 h'", True),
        ("history 5 min", True),
        ("UNTIL INTERVAL 5 SECONDS", True),
        ("UNTIL HISTORY", True),
        ("HISTORY -1 h", True),
        ("UNTIL TIMESTAMP '2026-11-27'", True),
        ("HISTORY WHERE a = 1", False),
        ("history", False),
        ("until.history = 1", False),
        ("HISTORY UNTIL", False),
    ],
)
def test_history_and_until_begin_before_a_duration(text: str, begins: bool) -> None:
    assert begins_range(sqlglot.tokenize(text, dialect="spark"), 0) is begins
