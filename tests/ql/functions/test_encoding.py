"""Functions that write bytes as text, and distances of texts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ql.functions.evaluating import values


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('hex(255)', 'FF'),
        ("hex('Spark')", '537061726B'),
        ('hex(-1)', 'FFFFFFFFFFFFFFFF'),
        ("cast(unhex('537061726B') AS string)", 'Spark'),
        ("unhex('XY')", None),
        ("base64('Spark')", 'U3Bhcms='),
        ("cast(unbase64('U3Bhcms=') AS string)", 'Spark'),
        ("octet_length('é')", 2),
        ("bit_length('é')", 16),
        ("ascii('A')", 65),
        ("ascii('')", 0),
        ('chr(65)', 'A'),
        ("substring_index('a.b.c', '.', 2)", 'a.b'),
        ("substring_index('a.b.c', '.', -1)", 'c'),
        ("substring_index('a.b.c', '.', 0)", ''),
        ("overlay('Spark SQL' PLACING '_' FROM 6)", 'Spark_SQL'),
        ("find_in_set('b', 'a,b,c')", 2),
        ("find_in_set('a,b', 'a,b,c')", 0),
        ("levenshtein('kitten', 'sitting')", 3),
        ("levenshtein('', 'abc')", 3),
        ('typeof(1)', 'bigint'),
    ],
)  # fmt: skip
def test_a_value_is_the_one_of_spark(expression: str, expected: Any) -> None:
    assert values(expression) == [expected]


def test_what_was_encoded_is_decoded_whatever_it_is() -> None:
    texts = ["", "a", "ab", "abc", "é\n\t", None]
    assert values("cast(unbase64(base64(s)) AS string)", s=texts) == texts
    assert values("cast(unhex(hex(s)) AS string)", s=texts) == texts
