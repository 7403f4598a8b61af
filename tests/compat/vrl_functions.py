"""Vector's examples of functions, as expressions of ELF-QL over one record."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tests.compat.cases import Case, NotOurs, Row, Translation, same_rows
from tests.compat.vrl_formats import VRL, is_read
from tests.compat.vrl_queries import SINGLE, out

RECORD: Row = {"one": 1}
RECORDS: Mapping[str, Row] = {
    "Flatten object": {"parent1": {"child1": 1, "child2": 2}, "parent2": {"child3": 3}},
    "Flatten object with custom separator": {"foo": {"bar": True}},
    "Flatten object with except": {"parent": {"child": 1}, "keep": {"nested": 2}},
    "Tag range": {"tags": ["a:x", "b:y", "c:z"]},
    "OR query": {"message": "contains this and that"},
    "AND query": {"message": "contains only this"},
    "Attribute wildcard": {"name": "foobar"},
}
"""Examples whose object is a record here."""

LITERAL = re.compile(r"[st]'(.*)'", re.S)
"""How the examples write a string or a time in an answer."""


def record_of(case: Mapping[str, Any]) -> Row:
    """The record that an example is asked over."""
    if case["function"] == "parse_aws_cloudwatch_log_subscription_message":
        source = case["source"]
        return dict(json.loads(source[source.index("s'") + 2 : source.rindex("'")]))
    return RECORDS.get(case["title"], RECORD)


def cases() -> list[Case]:
    """The examples of everything but log formats; what is an error there is null here, or refused."""
    return [
        Case(
            f"{case['function']}: {case['title']}",
            {"log": [record_of(case)]},
            same_rows(rows_of(case["expected"]), ordered=True),
            error=case["raises"] is not None,
        )
        for case in json.loads(VRL.read_text())["cases"]
        if not is_read(case)
    ]


def rows_of(value: Any) -> list[dict[str, Any]]:
    """An answer as rows: one for each object of a list, of log events each with what is around them."""
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        return [row_of(each) for each in value]
    if isinstance(value, dict) and isinstance(events := value.get("log_events"), list):
        return [row_of({**value, "log_events": each}) for each in events]
    return [row_of(value)]


def row_of(value: Any) -> dict[str, Any]:
    """An answer as a row: the fields of an object by their paths, anything else as `out`."""
    if isinstance(value, dict):
        return dict(paths(value, ""))
    match = LITERAL.fullmatch(value) if isinstance(value, str) else None
    return {"out": match[1] if match else value}


def paths(value: Mapping[str, Any], prefix: str) -> list[tuple[str, Any]]:
    """The leaves of an object."""
    found: list[tuple[str, Any]] = []
    for name, each in value.items():
        found += paths(each, f"{prefix}{name}.") if isinstance(each, dict) else [(prefix + name, each)]
    return found


ISO = "yyyy-MM-dd''T''HH:mm:ssXXX".replace("''", "\\'")
AT = "TIMESTAMP '2021-01-01T00:00:00Z'"
EVENING = "TIMESTAMP '2021-02-10T23:32:00Z'"
AFTERNOON = "TIMESTAMP '2020-10-21T16:00:00Z'"
MICROS = "TIMESTAMP '2020-12-30T22:20:53.824727Z'"
NEEDLE = "'The NEEDLE in the Haystack'"
HAYSTACK = "'The Needle In The Haystack'"
SENTENCE = "left('A rather long sentence.', 11)"
PATH = "/".join(("", "home", "user"))

NOT_OURS = {
    "parse_cbor": "no format of ours",
    "parse_etld": "no such function",
    "parse_influxdb": "no format of ours",
    "parse_proto": "no format of ours",
    "parse_ruby_hash": "no format of ours",
    "parse_user_agent": "another data base of agents, with categories of devices",
    "parse_yaml": "no format of ours",
    "unflatten": "an object is no value: its fields are columns",
    **dict.fromkeys(("to_string: Array", "to_string: Object"), "lists and maps have a text, as in Spark"),
}
FLOW = "'1.2.3.4', '5.6.7.8'"

EXPRESSIONS = {
    "community_id: Generate Community ID for TCP": f"community_id({FLOW}, 1122, 3344, 6)",
    "community_id: Generate Community ID for UDP": f"community_id({FLOW}, 1122, 3344, 17)",
    "community_id: Generate Community ID for ICMP": f"community_id({FLOW}, 8, 0, 1)",
    "community_id: Generate Community ID for RSVP": f"community_id({FLOW}, NULL, NULL, 46)",
    "match_datadog_query: OR query": r"message RLIKE '\\bthis\\b' OR message RLIKE '\\bthat\\b'",
    "match_datadog_query: AND query": r"message RLIKE '\\bthis\\b' AND message RLIKE '\\bthat\\b'",
    "match_datadog_query: Attribute wildcard": "name LIKE 'foo%'",
    "parse_bytes: Parse bytes (kilobytes)": "parse_bytes('1024KiB', 'MiB')",
    "parse_bytes: Parse kilobytes in default binary units": "parse_bytes('1KiB', 'B')",
    "parse_bytes: Parse bytes in SI unit (terabytes)": "parse_bytes('4TB', 'MB', 10)",
    "parse_bytes: Parse gigabytes in decimal units": "parse_bytes('1GB', 'B', 10)",
    "parse_bytes: Parse bytes in ambiguous unit (gigabytes)": "parse_bytes('1GB', 'B', 2)",
    "parse_bytes: Parse gigabytes in ambiguous decimal units": "parse_bytes('1GB', 'MB', 2)",
    "parse_duration: Parse duration (milliseconds)": "parse_duration('1005ms', 's')",
    "parse_duration: Parse multiple durations (seconds & milliseconds)": "parse_duration('1s 1ms', 'ms')",
    "parse_json: Parse JSON string": """get_json_object('"hello"', '$')""",
    "parse_json: Parse JSON integer": "bigint(get_json_object('42', '$'))",
    "parse_json: Parse JSON float": "double(get_json_object('42.13', '$'))",
    "parse_json: Parse JSON boolean": "boolean(get_json_object('false', '$'))",
    "xxhash: Calculate a hash using the default (XXH32) algorithm": "xxh32('foo')",
    "xxhash: Calculate a hash using the XXH32 algorithm": "xxh32('foo')",
    "xxhash: Calculate a hash using the XXH64 algorithm": "xxh64('foo')",
    "abs: Computes the absolute value of an integer": "abs(-42)",
    "abs: Computes the absolute value of a float": "abs(-42.2)",
    "abs: Computes the absolute value of a positive integer": "abs(10)",
    "ceil: Round a number up (without precision)": "ceil(4.345)",
    "ceil: Round a number up (with precision)": "ceil(4.345 * 100) / 100",
    "ceil: Round an integer up (noop)": "ceil(5)",
    "contains: String contains with default parameters (case sensitive)": "contains('banana', 'AnA')",
    "contains: String contains (case insensitive)": "contains(lower('banana'), lower('AnA'))",
    "contains_all: String contains all with default parameters (case sensitive)": (
        f"contains({NEEDLE}, 'NEEDLE') AND contains({NEEDLE}, 'Haystack')"
    ),
    "contains_all: String doesn't contain all with default parameters (case sensitive)": (
        f"contains({NEEDLE}, 'needle') AND contains({NEEDLE}, 'Haystack')"
    ),
    "contains_all: String contains all (case insensitive)": (
        "'The NEEDLE in the HaYsTaCk' ILIKE '%nEeDlE%' AND 'The NEEDLE in the HaYsTaCk' ILIKE '%haystack%'"
    ),
    "crc: Create CRC checksum using the default algorithm": "string(crc32('foo'))",
    "decode_percent: Percent decode a value": "url_decode('foo%20bar%3F')",
    "downcase: Downcase a string": "lower('Hello, World!')",
    "downcase: Downcase with number": "lower('FOO 2 BAR')",
    "encode_percent: Percent encode all non-alphanumeric characters (default)": (
        "replace(url_encode('foo bar?'), '+', '%20')"
    ),
    "encode_percent: Percent encode special characters": "url_encode('foo@bar?')",
    "ends_with: String ends with (case sensitive)": f"endswith({HAYSTACK}, 'The Haystack')",
    "ends_with: String ends with (case insensitive)": f"endswith(lower({HAYSTACK}), 'the haystack')",
    "ends_with: String ends with (case sensitive failure)": "endswith('foobar', 'R')",
    "floor: Round a number down (without precision)": "floor(9.8)",
    "floor: Round a number down (with precision)": "floor(4.345 * 100) / 100",
    "format_timestamp: Format a timestamp (ISO8601/RFC 3339)": (
        f"""date_format({AFTERNOON}, "yyyy-MM-dd'T'HH:mm:ss'+00:00'")"""
    ),
    "format_timestamp: Format a timestamp (custom)": f"date_format({AFTERNOON}, 'd-MMM-yyyy HH:mm')",
    "format_timestamp: Format a timestamp with custom format string": (
        f"date_format({EVENING}, 'dd MMMM yyyy HH:mm')"
    ),
    "format_timestamp: Format a timestamp with timezone conversion": (
        f"date_format({EVENING} AT TIME ZONE 'Europe/Berlin', 'dd MMMM yyyy HH:mm')"
    ),
    "ip_aton: IPv4 to integer": "ipv4_to_int('1.2.3.4')",
    "ip_cidr_contains: IPv4 contains CIDR": "cidr_contains('192.168.0.0/16', '192.168.10.32')",
    "ip_cidr_contains: IPv4 is private": "ip_is_private('192.168.10.32')",
    "ip_cidr_contains: IPv6 contains CIDR": (
        "cidr_contains('2001:4f8:4:ba::/64', '2001:4f8:4:ba:2e0:81ff:fe22:d1f1')"
    ),
    "ip_cidr_contains: Not in range": "cidr_contains('192.168.0.0/24', '192.168.10.32')",
    "ip_cidr_contains: Invalid address": "cidr_contains('192.168.0.0/24', 'INVALID')",
    "ip_ntoa: Integer to IPv4": "int_to_ipv4(16909060)",
    "match: Regex match on a string": """ "I'm a little teapot" RLIKE 'teapot'""",
    "match: String does not match the regular expression": """ "I'm a little teapot" RLIKE '.*balloon'""",
    "match_any: Regex match on a string": """ "I'm a little teapot" RLIKE 'frying pan|teapot'""",
    "match_any: No match": "'My name is John Doe' RLIKE '[0-9]+|Jane'",
    "md5: Create md5 hash": "md5('foo')",
    "mod: Calculate the remainder of two integers": "mod(5, 2)",
    "parse_float: Parse negative integer": "double('-42')",
    "parse_float: Parse float": "double('42.38')",
    "parse_float: Scientific notation": "double('2.5e3')",
    "parse_int: Parse decimal": "bigint('-42')",
    "parse_int: Parse binary": "bigint(conv(substring('0b1001', 3), 2, 10))",
    "parse_int: Parse octal": "bigint(conv(substring('0o42', 3), 8, 10))",
    "parse_int: Parse hexadecimal": "bigint(conv(substring('0x2a', 3), 16, 10))",
    "parse_int: Parse explicit base": "bigint(conv('2a', 17, 10))",
    "parse_timestamp: Parse timestamp": (
        f"""date_format(to_timestamp('10-Oct-2020 16:00+00:00', 'd-MMM-yyyy HH:mmXXX'), "{ISO}")"""
    ),
    "parse_timestamp: Parse timestamp with timezone": (
        "date_format(to_utc_timestamp(to_timestamp('16/10/2019 12:00:00', 'dd/MM/yyyy HH:mm:ss'),"
        f""" 'Asia/Taipei'), "{ISO}")"""
    ),
    "round: Round a number (without precision)": "round(4.345)",
    "round: Round a number (with precision)": "round(4.345, 2)",
    "round: Round up": "round(5.5)",
    "round: Round down": "round(5.45)",
    "sha1: Calculate sha1 hash": "sha1('foo')",
    "split: Split a string (no limit)": "split('apples and pears and bananas', ' and ')",
    "split: Split a string (with a limit)": "split('apples and pears and bananas', ' and ', 2)",
    "split: Split string": "split('foobar', 'b')",
    "split: Split regex": "split('barbaz', 'ba')",
    "starts_with: String starts with (case sensitive)": f"startswith({HAYSTACK}, 'The Needle')",
    "starts_with: String starts with (case insensitive)": f"startswith(lower({HAYSTACK}), 'the needle')",
    "starts_with: String starts with (case sensitive failure)": "startswith('foobar', 'F')",
    "strip_whitespace: Strip whitespace": "trim('  A sentence.  ')",
    "strip_whitespace: Start whitespace": "trim('  foobar')",
    "strip_whitespace: End whitespace": "trim('foo bar  ')",
    "strip_whitespace: Newlines": r"btrim('\n\nfoo bar\n  ', ' \n')",
    **{
        f"split_path: {title}": f"regexp_extract_all('{path}', '(^/|[^/]+)', 1)"
        for title, path in (
            ("Split path with trailing slash", f"{PATH}/"),
            ("Split path from file path", PATH),
            ("Split path from root", "/"),
            ("Empty path returns empty array", ""),
        )
    },
    "to_bool: Coerce to a Boolean (string)": "boolean('yes')",
    "to_bool: Coerce to a Boolean (float)": "boolean(0.0)",
    "to_bool: Coerce to a Boolean (int)": "boolean(0)",
    "to_bool: Coerce to a Boolean (null)": "coalesce(boolean(NULL), FALSE)",
    "to_bool: Coerce to a Boolean (Boolean)": "boolean(TRUE)",
    "to_bool: Integer (other)": "boolean(2)",
    "to_bool: Float (other)": "boolean(5.6)",
    "to_bool: False": "boolean(FALSE)",
    "to_bool: True string": "boolean('true')",
    "to_bool: Y string": "boolean('y')",
    "to_bool: Non-zero integer string": "boolean('1')",
    "to_bool: False string": "boolean('false')",
    "to_bool: No string": "boolean('no')",
    "to_bool: N string": "boolean('n')",
    "to_bool: Invalid string": "boolean('foobar')",
    "to_bool: Array": "boolean(array())",
    "to_bool: Object": "boolean(map())",
    "to_float: Coerce to a float": "double('3.145')",
    "to_float: Coerce to a float (timestamp)": f"double({MICROS})",
    "to_float: Integer": "double(5)",
    "to_float: Float": "double(5.6)",
    "to_float: True": "double(TRUE)",
    "to_float: False": "double(FALSE)",
    "to_float: Null": "coalesce(double(NULL), 0.0)",
    "to_float: Invalid string": "double('foobar')",
    "to_float: Array": "double(array())",
    "to_float: Object": "double(map())",
    "to_int: Coerce to an int (string)": "bigint('2')",
    "to_int: Coerce to an int (timestamp)": f"bigint({MICROS})",
    "to_int: Integer": "bigint(5)",
    "to_int: Float": "bigint(5.6)",
    "to_int: True": "bigint(TRUE)",
    "to_int: False": "bigint(FALSE)",
    "to_int: Null": "coalesce(bigint(NULL), 0)",
    "to_int: Invalid string": "bigint('foobar')",
    "to_int: Array": "bigint(array())",
    "to_int: Object": "bigint(map())",
    "to_string: Coerce to a string (Boolean)": "string(TRUE)",
    "to_string: Coerce to a string (int)": "string(52)",
    "to_string: Coerce to a string (float)": "string(52.2)",
    "to_string: String": "string('foo')",
    "to_string: False": "string(FALSE)",
    "to_string: Null": "coalesce(string(NULL), '')",
    "to_string: Timestamp": f"""date_format(TIMESTAMP '2020-01-01T00:00:00Z', "{ISO}")""",
    "to_unix_timestamp: Convert to a Unix timestamp (seconds)": f"unix_seconds({AT})",
    "to_unix_timestamp: Convert to a Unix timestamp (milliseconds)": f"unix_millis({AT})",
    "to_unix_timestamp: Convert to a Unix timestamp (microseconds)": f"unix_micros({AT})",
    "to_unix_timestamp: Convert to a Unix timestamp (nanoseconds)": f"unix_micros({AT}) * 1000",
    "truncate: Truncate a string": f"{SENTENCE} || '...'",
    "truncate: Truncate a string (custom suffix)": f"{SENTENCE} || '[TRUNCATED]'",
    "truncate: Truncate": "left('foobar', 3)",
    "upcase: Upcase a string": "upper('Hello, World!')",
}


def translation(name: str) -> Translation:
    """An example as a query, or why there is none."""
    function = name.partition(":")[0]
    if (why := NOT_OURS.get(name, NOT_OURS.get(function))) is not None:
        return NotOurs(why)
    return SINGLE[name] if name in SINGLE else out(EXPRESSIONS[name])
