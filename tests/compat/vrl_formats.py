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
ALB = {
    "timestamp": "ts",
    "client_host": "client",
    "target_host": "target",
    "elb_status_code": "status",
    "target_status_code": "target_status",
    "target_status_code_list": "target_status_list",
    "target_port_list": "target_list",
    "request_method": "method",
    "request_url": "url",
    "request_protocol": "protocol",
    "user_agent": "agent",
    "traceability_id": "conn_trace_id",
}
FLOW_V5 = (
    "version srcaddr dstaddr srcport dstport protocol start end type packets bytes account_id vpc_id "
    "subnet_id instance_id interface_id region az_id sublocation_type sublocation_id action tcp_flags "
    "pkt_srcaddr pkt_dstaddr pkt_src_aws_service pkt_dst_aws_service traffic_path flow_direction log_status"
)
FLOW_V11 = (
    "version srcaddr dstaddr srcport dstport protocol start end action log_status reject_reason resource_id "
    "encryption_status interface_type"
)
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
    "parse_aws_alb_log": ("aws_alb", ALB),
    "parse_aws_vpc_flow_log": ("aws_vpc_flow", {}),
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
    "Parse using Regex with variables": (r"regex:^(?P<host>[\w\.]+) - (?P<user>[\w]+)", {}),
    "Parse a single CSV formatted row": ("csv:0,1,2", {}),
    "Parse a single CSV formatted row with custom delimiter": (r"regex:(?P<_0>\S*) (?P<_1>\S*)", {}),
    "Parse AWS VPC Flow log (custom format)": (
        "aws_vpc_flow:instance_id interface_id srcaddr dstaddr pkt_srcaddr pkt_dstaddr",
        {},
    ),
    "Parse AWS VPC Flow log including v5 fields": (f"aws_vpc_flow:{FLOW_V5}", {}),
    "Parse AWS VPC Flow log including v11 fields": (f"aws_vpc_flow:{FLOW_V11}", {}),
    "Parse using aliases from file": ("grok:%{PATTERN_A}", {}),
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
    "Parse JSON array": "the elements of a list have one type",
}
EXPRESSED = {
    *("Parse using Regex (without capture groups)", "Parse using Regex with all numeric groups"),
    *("Parse JSON string", "Parse JSON integer", "Parse JSON float", "Parse JSON boolean"),
    "Parse JSON with max_depth",
}
"""Examples of parsers whose text is no record here: expressions read it."""

OWN_PATTERNS = {"PATTERN_A": "%{PATTERN_B}", "PATTERN_B": "username=%{USERNAME:username}"}
"""The patterns of the example that has its own, as in `patterns = {...}` of a stream."""

VALUE_WORDS = {"I": "info", "W": "warning", "E": "error", "F": "fatal"}
LITERAL = re.compile(r"""s'(?P<raw>(?:[^'\\]|\\.)*)'|(?P<text>"(?:[^"\\]|\\.)*")""", re.S)


def is_read(case: dict[str, Any]) -> bool:
    """Whether an example is a record of a format that is ours."""
    return case["function"] in FORMATS and case["title"] not in EXPRESSED


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
    if wanted in ("", []) and found is None:
        return True  # what is empty is null in formats of patterns
    return as_text(wanted) in (as_text(found), str(VALUE_WORDS.get(str(found), found)))


def outcomes() -> list[Outcome]:
    """What became of the examples of parsers that are formats here.

    Raises:
        AssertionError: one fails.
    """
    cases = json.loads(VRL.read_text())["cases"]
    return [outcome(case) for case in cases if is_read(case)]


def outcome(case: dict[str, Any]) -> Outcome:
    """Read one example's line; what cannot be read there must be an error here."""
    name = f"{case['function']}: {case['title']}"
    if case["title"] in NOT_OURS:
        return Outcome(name, NOT_APPLICABLE, NOT_OURS[case["title"]])
    spec, names = BY_TITLE.get(case["title"]) or FORMATS[case["function"]]
    formats = StreamFormat(spec, clock=LocalClock(year=VRL_YEAR), patterns=OWN_PATTERNS)
    parser = formats.parser("f")
    if case["raises"] is not None:
        line = "{ INVALID }" if case["function"] == "parse_json" else line_of(case)
        assert parser.parse(line.encode(), ["a"]).errors == 1, name
        return Outcome(name, PASSED)
    if isinstance(case["expected"], list):  # a row of a csv file: its columns in their order
        wanted = dict(zip(parser.known_columns() or (), case["expected"], strict=True))
    else:
        wanted = flat(case["expected"], names)
    wanted.pop("compression", None)  # Vector takes the field behind combined for gzip's ratio
    parsed = parser.parse(line_of(case).encode(), list(wanted))
    assert parsed.rows == 1, name
    (row,) = parsed.batch.to_pylist()
    for column, value in wanted.items():
        assert same(value, row[column]), (name, column, value, row[column])
    return Outcome(name, PASSED)
