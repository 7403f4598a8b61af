"""Functions that Spark does not have: addresses, user agents, decoded query strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/120.0.0.0 Safari/537.36"
)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("query_param('/x?a=1+2&b=%C3%A9#t', 'a')", "1 2"),
        ("query_param('/x?a=1&b=%C3%A9#t', 'b')", "é"),
        ("query_param('a=1&b', 'b')", ""),
        ("query_param('/x?a=%zz', 'a')", None),
        ("query_param('/x', 'a')", None),
        ("query_params('/x?a=1&b=2&a=%C3%A9#t', 'a')", ["1", "é"]),
        ("query_params('a=1', 'b')", []),
        ("query_params('a=%zz', 'a')", [None]),
        ("query_params(NULL, 'a')", None),
        ("is_ipv4('10.0.0.1')", True),
        ("is_ipv4('::1')", False),
        ("is_ipv6('::1')", True),
        ("is_ipv6('1.2.3')", False),
        ("ip_is_private('192.168.7.7')", True),
        ("ip_is_private('8.8.8.8')", False),
        ("ip_is_private('nobody')", None),
        ("ipv4_to_int('1.2.3.4')", 16909060),
        ("ipv4_to_int('::1')", None),
        ("int_to_ipv4(16909060)", "1.2.3.4"),
        ("int_to_ipv4(-1)", None),
        ("ip_prefix('10.1.2.3', 16)", "10.1.0.0"),
        ("ip_prefix('2001:db8::5', 32)", "2001:db8::"),
        ("ip_prefix('10.1.2.3', 33)", None),
        ("cidr_contains('10.0.0.0/8', '10.9.9.9')", True),
        ("cidr_contains('10.0.0.0/8', '11.9.9.9')", False),
        ("cidr_contains('10.0.0.0/8', '::1')", False),
        ("cidr_contains('10.0.0.0/8', 'x')", None),
        (f"user_agent('{CHROME}', 'browser')", "Chrome"),
        (f"user_agent('{CHROME}', 'os')", "Windows"),
        ("user_agent('nothing known', 'browser')", None),
        ("convert_timezone('UTC', 'Asia/Tokyo', '2024-07-01 12:00:00')::string", "2024-07-01 21:00:00"),
        ("(TIMESTAMP '2024-07-01 12:00:00' AT TIME ZONE 'Asia/Tokyo')::string", "2024-07-01 21:00:00"),
        ("element_at('[1, \"b\"]', 2)", "b"),
        ("array_contains('[\"a\", \"b\"]', 'b')", True),
        ("size('{\"no\": \"list\"}')", -1),
        ("levenshtein(repeat('x', 5000), 'x')", None),
        ("format_string('%10000s', 'x') = lpad('x', 10000)", True),
        ("get_json_object(repeat('[', 100000), '$[0]')", None),
    ],
)  # fmt: skip
def test_a_function_of_our_own(expression: str, expected: Any, rows_of: Callable[..., Any]) -> None:
    assert rows_of(f"SELECT {expression} AS x FROM t", {"a": [1]}) == [(expected,)]


FLOWS = {
    "'128.232.110.120', '66.35.250.204', 34855, 80, 6": "1:LQU9qZlK+B5F3KDmev6m5PMibrg=",
    "'192.168.1.52', '8.8.8.8', 54585, 53, 17": "1:d/FP5EW3wiY1vCndhwleRRKHowQ=",
    "'192.168.0.89', '192.168.0.1', 8, 0, 1": "1:X0snYXpgwiv9TZtqg64sgzUn6Dk=",
    "'192.168.0.1', '192.168.0.89', 0, 0, 1": "1:X0snYXpgwiv9TZtqg64sgzUn6Dk=",
    "'fe80::200:86ff:fe05:80da', 'fe80::260:97ff:fe07:69ea', 135, 0, 58": "1:dGHyGvjMfljg6Bppwm3bg0LO8TY=",
    "'1.2.3.4', '5.6.7.8', NULL, NULL, 46": "1:ikv3kmf89luf73WPz1jOs49S768=",
    "'1.2.3.4', '5.6.7.8', NULL, 80, 6": None,
    "'1.2.3.4', '5.6.7.8', 80, 65536, 6": None,
    "'1.2.3.4', '::1', 80, 80, 6": None,
    "'1.2.3.4', 'x', 80, 80, 6": None,
    "'1.2.3.4', NULL, 80, 80, 6": None,
    "'1.2.3.4', '5.6.7.8', 80, 80, 256": None,
}
"""Arguments, and the Community ID of the reference implementation; None: there is none."""


@pytest.mark.parametrize("flow", FLOWS)
def test_a_flow_has_its_community_id(flow: str, rows_of: Callable[..., Any]) -> None:
    assert rows_of(f"SELECT community_id({flow}) AS x FROM t", {"a": [1]}) == [(FLOWS[flow],)]


def test_both_directions_of_a_flow_have_one_id_and_another_seed_gives_another(
    rows_of: Callable[..., Any],
) -> None:
    table = {"a": ["9.9.9.9", "10.0.0.1"], "b": ["10.0.0.1", "9.9.9.9"], "p": [80, 7], "q": [7, 80]}
    (one, other), (same, _) = rows_of(
        "SELECT community_id(a, b, p, q, 17) AS x, community_id(a, b, p, q, 17, 1) AS y FROM t", table
    )
    assert one == same != other
