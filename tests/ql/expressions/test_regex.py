"""Java's patterns, replacements and LIKE in RE2's spelling."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.errors import QueryError
from elfmesh.ql.expressions.nodes import Expr, FieldRef, place_of
from elfmesh.ql.expressions.operand import LambdaBody
from elfmesh.ql.expressions.regex import (
    compile_pattern,
    java_split,
    like_parts,
    like_regex,
    rewrite_replacement,
)
from elfmesh.ql.expressions.text_source import SourceText, TextPosition

HERE = FieldRef("x", at=TextPosition(1, 8))


class Compiler:
    """Only the place of an error."""

    def error(self, expr: Expr, message: str, hint: str = "") -> QueryError:
        return SourceText("SELECT x").error(message, place_of(expr), hint)

    def body(self, function: Expr, *kinds: pa.DataType) -> LambdaBody:
        raise AssertionError("a pattern has no lambda function")


@pytest.mark.parametrize("pattern", ["(", "(?=a)", r"(a)\1", "(?<!b)c"])
def test_what_re2_lacks_is_refused(pattern: str) -> None:
    with pytest.raises(QueryError, match="cannot use the regular expression") as caught:
        compile_pattern(Compiler(), HERE, pattern)
    assert caught.value.column == 8
    assert "no look-ahead" in caught.value.hint


@pytest.mark.parametrize(
    ("java", "expected"),
    [
        ("$1-$2", r"\1-\2"),
        (r"\$1", "$1"),
        ("a\\\\b", r"a\\b"),
        ("$12", r"\12"),  # group 1 and the digit 2
        ("$0", r"\0"),
        ("tail\\", r"tail\\"),
    ],
)
def test_a_replacement_is_spelt_as_re2_spells_it(java: str, expected: str) -> None:
    assert rewrite_replacement(Compiler(), HERE, java, 2) == expected


@pytest.mark.parametrize("java", ["$3", "$", "$x"])
def test_a_group_that_the_pattern_lacks_is_refused(java: str) -> None:
    with pytest.raises(QueryError, match="names a group the pattern does not have"):
        rewrite_replacement(Compiler(), HERE, java, 2)


@pytest.mark.parametrize(
    ("pattern", "escape", "expected"),
    [
        ("", "\\", []),
        ("abc", "\\", ["abc"]),
        ("a%_c", "\\", ["a", None, "", "c"]),
        (r"50\%\_\\", "\\", ["50%_\\"]),
        ("50!%!!", "!", ["50%!"]),
    ],
)
def test_a_like_pattern_is_cut_at_its_wild_cards(pattern: str, escape: str, expected: list[str]) -> None:
    assert like_parts(Compiler(), HERE, pattern, escape) == expected


@pytest.mark.parametrize("pattern", ["a\\", r"\a"])
def test_an_escape_before_a_plain_character_is_refused(pattern: str) -> None:
    with pytest.raises(QueryError, match="does not escape a special character"):
        like_parts(Compiler(), HERE, pattern, "\\")


@given(st.text(alphabet="ab%_.\n", max_size=5), st.text(alphabet="ab.\n", max_size=5))
def test_a_like_pattern_matches_what_its_characters_mean(pattern: str, text: str) -> None:
    meant = "".join({"%": "[\\s\\S]*", "_": "[\\s\\S]"}.get(each, re.escape(each)) for each in pattern)
    made = like_regex(like_parts(Compiler(), HERE, pattern, "\\"))
    assert bool(re2.search(made, text)) == bool(re.fullmatch(meant, text))


@pytest.mark.parametrize(
    ("pattern", "most", "text", "expected"),
    [
        (",", 0, "a,b,,", ["a", "b", "", ""]),
        (",", 2, "a,b,c", ["a", "b,c"]),
        (",", 0, "", [""]),
        (",", 0, ",a", ["", "a"]),
        ("", 0, "abc", ["a", "b", "c"]),
        ("", 2, "abc", ["a", "bc"]),
        ("x*", 0, "axb", ["a", "", "b", ""]),
        ("x*", 2, "axb", ["a", "b"]),
    ],
)
def test_a_text_is_split_as_java_splits_it(pattern: str, most: int, text: str, expected: list[str]) -> None:
    assert java_split(re2.compile(pattern), most)(text) == expected
