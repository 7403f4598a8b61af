"""Where a statement ends, and what is none yet."""

from __future__ import annotations

import pytest

from elfmesh.cli.sql.statements import all_inputs, is_complete, is_quoted, split

BODY = "WITH FUNCTION f(a STRING) RETURNS STRING LANGUAGE PYTHON AS $$\nx = 'a;'; y\n$$ SELECT f(a) FROM s"


@pytest.mark.parametrize(
    ("text", "inputs", "rest"),
    [
        ("", [], ""),
        (" ; ;\n", [], ""),
        ("SELECT 1 FROM a", [], "SELECT 1 FROM a"),
        ("SELECT 1 FROM a;", ["SELECT 1 FROM a"], ""),
        ("SELECT 1 FROM a ;\n SELECT\n2;", ["SELECT 1 FROM a", "SELECT\n2"], ""),
        ("SELECT 1; SELECT 2", ["SELECT 1"], "SELECT 2"),
        ("SELECT ';' , \";\", `;` ;", ["SELECT ';' , \";\", `;`"], ""),
        (r"SELECT 'it\'s;' ;", [r"SELECT 'it\'s;'"], ""),
        (r"SELECT r'\';x", [r"SELECT r'\'"], "x"),
        ("SELECT a -- b;\n FROM c;", ["SELECT a -- b;\n FROM c"], ""),
        ("SELECT a /* b; */ FROM c;", ["SELECT a /* b; */ FROM c"], ""),
        ("SELECT 'a;", [], "SELECT 'a;"),
        ("SELECT /* a;", [], "SELECT /* a;"),
        ("-- only; a comment\n/* and; another */", [], ""),
        ("/* begun", [], "/* begun"),
        (f"{BODY};", [BODY], ""),
        (BODY[:75], [], BODY[:75]),
        (".mode json\nSELECT 1;\n.quit", [".mode json", "SELECT 1", ".quit"], ""),
        ("SELECT 1; .tables", ["SELECT 1", ".tables"], ""),
        ("-- first\n.tables", [".tables"], ""),
        ("SELECT\n.5;", ["SELECT\n.5"], ""),
    ],
)
def test_inputs_end_at_their_semicolon(text: str, inputs: list[str], rest: str) -> None:
    found, begin = split(text)
    assert ([each.text for each in found], text[begin:]) == (inputs, rest)
    assert all(text.startswith(each.text, each.at) for each in found)
    assert is_complete(text) == (not rest)
    assert [each.text for each in all_inputs(text)] == [*inputs, *([rest.rstrip()] if rest else [])]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a", False),
        ("SELECT 'a", True),
        ("SELECT 'a'", False),
        ("SELECT `a", True),
        ("SELECT a -- b", True),
        ("SELECT a -- b\n", False),
        ("SELECT a /* b", True),
        ("AS $$ def", True),
    ],
)
def test_a_cursor_in_a_string_or_a_comment(text: str, expected: bool) -> None:
    assert is_quoted(text) is expected
