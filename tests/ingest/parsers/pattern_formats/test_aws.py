"""Logs of AWS: load balancers and flows, as its documentation shows them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.parsers.pattern_formats.aws import FLOW_FIELDS_MAX
from tests.ingest.parsers.reading import read

ALB = (
    "https 2018-07-02T22:23:00.186641Z app/lb/50dc 192.168.131.39:2817 10.0.0.1:80 0.086 -1 0.037 {status} 0 "
    '57 "GET https://www.example.com:443/a?b=1 HTTP/1.1" "curl \\"7\\"" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 '
    'arn:aws:tg "Root=1-58337281" "www.example.com" "arn:aws:acm" 1 2018-07-02T22:22:48.364000Z '
    '"authenticate,forward" "-" "-"'
)
COLUMNS = ["ts", "client", "target_processing_time", "status", "target_status", "method", "url", "agent"]
AT = datetime(2018, 7, 2, 22, 23, 0, 186641, tzinfo=UTC)
URL = "https://www.example.com:443/a?b=1"


@pytest.mark.parametrize(
    "more", ["", ' "10.0.0.1:80" "200" "-" "-"', ' "10.0.0.1:80" "200" "-" "-" TID_1 "-" "a later field"']
)
def test_a_line_of_a_load_balancer_may_have_fields_of_later_years(more: str) -> None:
    line = ALB.format(status="200 200") + more
    agent = 'curl \\"7\\"'
    assert read("aws_alb", line, COLUMNS) == [(AT, "192.168.131.39:2817", -1.0, 200, 200, "GET", URL, agent)]
    columns = ["redirect_url", "target_list", "conn_trace_id"]
    assert read("aws_alb", line, columns) == [
        (None, "10.0.0.1:80" if more else None, "TID_1" if "TID" in more else None)
    ]


def test_a_request_that_is_none_and_a_target_that_did_not_answer_are_null() -> None:
    line = ALB.format(status="460 -").replace(f"GET {URL} HTTP/1.1", "- http://x:80- ")
    assert read("aws_alb", line, ["status", "target_status", "method", "url", "protocol"]) == [
        (460, None, None, "http://x:80-", None)
    ]
    parsed = StreamFormat("aws_alb").parser("f").parse(line[:200].encode(), ["ts"])
    assert (parsed.rows, parsed.errors) == (0, 1)


FLOW = "2 123456789010 eni-1 10.0.0.5 10.0.0.9 443 49152 6 20 4249 1418530010 1418530070 ACCEPT OK"
START = datetime(2014, 12, 14, 4, 6, 50, tzinfo=UTC)


@pytest.mark.parametrize(
    ("spec", "line", "wanted"),
    [
        ("aws_vpc_flow", FLOW, {"ts": START, "srcaddr": "10.0.0.5", "bytes": 4249, "action": "ACCEPT"}),
        (
            "aws_vpc_flow",
            "2 1 eni-1 - - - - - - - 1418530010 1418530070 - NODATA",
            {"ts": START, "srcport": None, "bytes": None, "log_status": "NODATA"},
        ),
        (
            "aws_vpc_flow:version Start pkt-srcaddr vpc_id",
            "5 1418530010 10.0.0.5 vpc-1 ",
            {"ts": START, "version": 5, "pkt_srcaddr": "10.0.0.5", "vpc_id": "vpc-1"},
        ),
        ("aws_vpc_flow:srcaddr bytes", "10.0.0.5 7", {"ts": None, "srcaddr": "10.0.0.5", "bytes": 7}),
    ],
)
def test_a_flow_has_the_fields_that_its_owner_chose(spec: str, line: str, wanted: dict[str, Any]) -> None:
    assert read(spec, line, list(wanted)) == [tuple(wanted.values())]


@pytest.mark.parametrize("line", [FLOW.rpartition(" ")[0], f"{FLOW} more", "version account-id"])
def test_a_flow_with_other_fields_is_an_error(line: str) -> None:
    parsed = StreamFormat("aws_vpc_flow").parser("f").parse(line.encode(), ["ts"])
    assert (parsed.rows, parsed.errors) == (0, 1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("srcaddr ${bytes}", "'..bytes.' is not a field"),
        (" ", "is not a field"),
        ("pkt-srcaddr pkt_srcaddr", "the field pkt_srcaddr is named twice"),
        (" ".join(f"f{at}" for at in range(FLOW_FIELDS_MAX + 1)), "201 fields are too many"),
    ],
)
def test_fields_that_mean_nothing_are_refused(fields: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        StreamFormat(f"aws_vpc_flow:{fields}")
