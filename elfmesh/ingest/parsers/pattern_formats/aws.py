"""Logs of AWS: access logs of Application Load Balancers, and flow logs of a VPC.

`-` is null in both. A flow log has the fields that its owner chose, in that order; `ts` is its `start`.
"""

from __future__ import annotations

import re

import pyarrow as pa

from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers.pattern_formats.patterns import LineFormat, LinePattern
from elfmesh.ingest.parsers.pattern_formats.servers import PatternTable

FLOW_FIELDS_MAX = 200
FLOW_FIELDS = (
    "version account_id interface_id srcaddr dstaddr srcport dstport protocol packets bytes start end action"
    " log_status"
)
"""The fields of a flow log whose owner chose none."""

_FLOW_INTEGERS = (
    *("version", "srcport", "dstport", "protocol", "packets", "bytes", "start", "end", "tcp_flags"),
    *("traffic_path", "encryption_status"),
)
_FIELD = re.compile(r"[a-z][a-z0-9_]*")

_TEXT = r'"(?P<{0}>(?:[^"\\]|\\.)*)"'
_ALB = (
    r"^(?P<type>\S+) (?P<ts>\S+) (?P<elb>\S+) (?P<client>\S+) (?P<target>\S+)"
    r" (?P<request_processing_time>\S+) (?P<target_processing_time>\S+) (?P<response_processing_time>\S+)"
    r" (?P<status>\S+) (?P<target_status>\S+) (?P<received_bytes>\S+) (?P<sent_bytes>\S+)"
    r' "(?P<method>[^ "]*) (?P<url>[^ "]*) ?(?P<protocol>[^"]*)" '
    + _TEXT.format("agent")
    + r" (?P<ssl_cipher>\S+) (?P<ssl_protocol>\S+) (?P<target_group_arn>\S+) "
    + " ".join(map(_TEXT.format, ("trace_id", "domain_name", "chosen_cert_arn")))
    + r" (?P<matched_rule_priority>\S+) (?P<request_creation_time>\S+) "
    + " ".join(map(_TEXT.format, ("actions_executed", "redirect_url", "error_reason")))
    + "".join(
        f"(?: {_TEXT.format(name)})?"
        for name in ("target_list", "target_status_list", "classification", "classification_reason")
    )
    + r"(?: (?P<conn_trace_id>\S+))?(?: .*)?$"
)
_ALB_NAMES = tuple(LinePattern(_ALB).groups)
ALB = PatternTable(
    (LinePattern(_ALB),),
    _ALB_NAMES,
    {
        **dict.fromkeys(("status", "target_status", "received_bytes", "sent_bytes"), pa.int64()),
        **dict.fromkeys((name for name in _ALB_NAMES if name.endswith("processing_time")), pa.float64()),
    },
    tuple(name for name in _ALB_NAMES if name != "ts"),
)


def flow_format(fields: str) -> LineFormat:
    """Return the format of a flow log with these fields, separated by blanks; "": those of the default.

    Raises:
        ConfigError: a name is invalid or comes twice, or there are too many.
    """
    names = [name.lower().replace("-", "_") for name in (fields or FLOW_FIELDS).split()]
    wrong = next((name for name in names if not _FIELD.fullmatch(name)), None)
    twice = next((name for name in names if names.count(name) > 1), None)
    if wrong is not None or not names:
        raise _refusal(
            f"{wrong or fields!r} is not a field", "As in aws_vpc_flow:version srcaddr dstaddr bytes start."
        )
    if twice is not None:
        raise _refusal(f"the field {twice} is named twice", "Name each once.")
    if len(names) > FLOW_FIELDS_MAX:
        raise _refusal(f"{len(names)} fields are too many", f"At most {FLOW_FIELDS_MAX}.")
    groups = {name: (f"f{number}",) for number, name in enumerate(names)}
    cells = " ".join(rf"(?P<f{number}>\S+)" for number in range(len(names)))
    types = {name: pa.int64() for name in names if name in _FLOW_INTEGERS}
    times = {"ts": groups["start"]} if "start" in groups else {}
    return LineFormat(LinePattern(rf"^{cells}\s*$", {**times, **groups}), (*times, *names), types)


def _refusal(message: str, hint: str) -> ConfigError:
    return ConfigError(message, where="format aws_vpc_flow", hint=hint)
