"""Vector's examples of its parsers, of formats that are ours too."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.parsers.clock import LocalClock
from tests.compat.cases import NOT_APPLICABLE, PASSED, PEERS, Outcome

VRL = PEERS / "vrl" / "doc_examples.json"
VRL_YEAR = 2026
"""In which the page was made: its examples without a year say so."""

ACCESS = {
    "identity": "ident",
    "message": "request",
    "size": "bytes",
    "timestamp": "ts",
    "referrer": "referer",
    "client": "host",
}
NGINX = {
    "remote_addr": "host",
    "remote_user": "user",
    "http_referer": "referer",
    "http_user_agent": "agent",
    "timestamp": "ts",
    "body_bytes_size": "bytes",
}
ERROR = {"timestamp": "ts", "severity": "level", "thread": "tid", "cid": "connection", "referrer": "referrer"}
SYSLOG = {"timestamp": "ts", "hostname": "host", "appname": "app"}
CEF = {
    "cefVersion": "cef_version",
    "deviceVendor": "device_vendor",
    "deviceProduct": "device_product",
    "deviceVersion": "device_version",
    "deviceEventClassId": "device_event_class_id",
}
GLOG = {"timestamp": "ts", "id": "tid"}
FORMATS: dict[str, tuple[str, dict[str, str]]] = {
    "parse_apache_log": ("", ACCESS),
    "parse_common_log": ("common", ACCESS),
    "parse_nginx_log": ("", {}),
    "parse_cef": ("cef", CEF),
    "parse_syslog": ("syslog", SYSLOG),
    "parse_linux_authorization": ("syslog", SYSLOG),
    "parse_glog": ("glog", GLOG),
    "parse_klog": ("glog", GLOG),
    "parse_logfmt": ("logfmt", {}),
    "parse_key_value": ("kv", {}),
    "parse_json": ("json", {}),
    "parse_csv": ("", {}),
    "parse_regex": ("", {}),
    "parse_grok": ("", {}),
    "parse_groks": ("", {}),
}
BY_TITLE: dict[str, tuple[str, dict[str, str]]] = {
    "Parse using Apache log format (common)": ("common", ACCESS),
    "Parse using Apache log format (combined)": ("combined", ACCESS),
    "Parse using Apache log format (error)": ("apache_error", ERROR),
    "Parse via Nginx log format (combined)": ("combined", ACCESS),
    "Parse via Nginx log format (error)": ("nginx_error", ERROR),
    "Parse via Nginx log format (main)": ("nginx_main", NGINX),
    "Parse via Nginx log format (ingress_upstreaminfo)": ("nginx_ingress", NGINX),
    "Parse comma delimited log": ("kv:k:v, k:v", {}),
    "Parse comma delimited log with standalone keys": ("kv:k:v,k:v", {}),
    "Parse using Regex (with capture groups)": ("regex:(?P<number>.*?) group", {}),
    "Parse using Regex with simple match": (r"regex:^(?P<host>[\w\.]+) - (?P<user>[\w]+)", {}),
    "Parse using Grok": (
        "grok:%{TIMESTAMP_ISO8601:timestamp} %{LOGLEVEL:level} %{GREEDYDATA:message}",
        {},
    ),
    "Parse using multiple Grok patterns": (
        "grok:%{TIMESTAMP_ISO8601:timestamp} %{LOGLEVEL:level} (?:%{POSINT:status} )?%{GREEDYDATA:message}",
        {},
    ),
}
NOT_OURS = {
    "Translate custom fields": "labels stay columns of their own (cs1, cs1Label)",
    "Parse duplicate keys": "the last one wins; a column is no list",
    "Parse a single CSV formatted row": "a row without a header is no record of a log",
    "Parse a single CSV formatted row with custom delimiter": "csv and tsv have comma and tab",
    "Parse using Regex (without capture groups)": "columns are named groups",
    "Parse using Regex with all numeric groups": "columns are named groups",
    "Parse using Regex with variables": "the same pattern as another case, by VRL's variables",
    "Parse using aliases from file": "patterns stand in the configuration",
    "Parse JSON array": "a record is an object",
    "Parse JSON string": "a record is an object",
    "Parse JSON integer": "a record is an object",
    "Parse JSON float": "a record is an object",
    "Parse JSON boolean": "a record is an object",
    "Parse JSON with max_depth": "objects are read whole",
}
VALUE_WORDS = {"I": "info", "W": "warning", "E": "error", "F": "fatal"}
LITERAL = re.compile(r"""s'(?P<raw>(?:[^'\\]|\\.)*)'|(?P<text>"(?:[^"\\]|\\.)*")""", re.S)


def line_of(case: dict[str, Any]) -> str:
    """The line that an example reads."""
    match = LITERAL.search(case["source"])
    assert match is not None
    return match["raw"] if match["raw"] is not None else json.loads(match["text"])


def flat(value: dict[str, Any], names: dict[str, str], prefix: str = "") -> dict[str, Any]:
    """What an example expects, by the names of our columns."""
    out: dict[str, Any] = {}
    for key, each in value.items():
        if isinstance(each, dict):
            out |= flat(each, {}, f"structured_data.{key}.")
        else:
            out[prefix + names.get(key, key)] = each
    return out


def as_text(value: Any) -> str | None:
    """A value as both write it."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


def same(wanted: Any, found: Any) -> bool:
    """Whether a column has what is expected: a field of a log is text unless its format says more."""
    if isinstance(found, datetime):
        return datetime.fromisoformat(str(wanted)) == found
    if wanted == "" and found is None:
        return True  # what is empty is null in formats of patterns
    return as_text(wanted) in (as_text(found), str(VALUE_WORDS.get(str(found), found)))


def outcomes() -> list[Outcome]:
    """What became of the examples of parsers that are formats here.

    Raises:
        AssertionError: one fails.
    """
    cases = json.loads(VRL.read_text())["cases"]
    return [outcome(case) for case in cases if case["function"] in FORMATS]


def outcome(case: dict[str, Any]) -> Outcome:
    """Read one example's line; what cannot be read there must be an error here."""
    name = f"{case['function']}: {case['title']}"
    if case["title"] in NOT_OURS:
        return Outcome(name, NOT_APPLICABLE, NOT_OURS[case["title"]])
    spec, names = BY_TITLE.get(case["title"]) or FORMATS[case["function"]]
    parser = StreamFormat(spec, clock=LocalClock(year=VRL_YEAR)).parser("f")
    if case["raises"] is not None:
        line = "{ INVALID }" if case["function"] == "parse_json" else line_of(case)
        assert parser.parse(line.encode(), ["a"]).errors == 1, name
        return Outcome(name, PASSED)
    wanted = flat(case["expected"], names)
    wanted.pop("compression", None)  # Vector takes the field behind combined for gzip's ratio
    parsed = parser.parse(line_of(case).encode(), list(wanted))
    assert parsed.rows == 1, name
    (row,) = parsed.batch.to_pylist()
    for column, value in wanted.items():
        assert same(value, row[column]), (name, column, value, row[column])
    return Outcome(name, PASSED)
