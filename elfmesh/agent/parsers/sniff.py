"""What format the first lines of a file are in, where that is certain; knows looks, makes no parser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from elfmesh.agent.parsers.csv_lines import COMMA, TAB, csv_row
from elfmesh.agent.parsers.json_lines import json_fields
from elfmesh.agent.parsers.lines import Lines
from elfmesh.agent.parsers.logfmt import logfmt_fields
from elfmesh.agent.parsers.patterns import Pattern
from elfmesh.agent.parsers.servers import CRI, GLOG, NGINX_ERROR
from elfmesh.agent.parsers.syslog import PATTERNS as SYSLOG

LINES_MAX = 20
SHARE = 0.5
"""At least this share of the first lines must look like a format for it to be chosen."""

_ACCESS_LINE = r'[^ ]+ [^ ]+ .+? \[.*?\] ".*?" [0-9]{3} (?:[0-9]+|-)(?P<more> ")?'
_VHOST = re.compile(r"[^ ]+:\d+ ")
_NAME = re.compile(r"\s*[A-Za-z_@][\w .@-]*")
_DOCKER = {"log", "stream", "time"}


def _like(*patterns: Pattern) -> Callable[[str], bool]:
    """One of a format's own patterns."""
    import re2  # linear in what hostile lines may be

    compiled = [re2.compile(pattern.text) for pattern in patterns]
    return lambda text: any(each.search(text) for each in compiled)


def _begins(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: compiled.match(text) is not None


def _json(text: str) -> bool:
    return text.lstrip().startswith("{")


def _docker(text: str) -> bool:
    return text.startswith('{"log":') and set(json_fields(text)) - {"attrs"} == _DOCKER


def _journald(text: str) -> bool:
    return '"__REALTIME_TIMESTAMP"' in text and "__CURSOR" in json_fields(text)


def _access(text: str) -> Any:
    import re2

    return re2.match(_ACCESS_LINE, text)  # compiled once: re2 keeps them


def _combined(text: str) -> bool:
    match = _access(text)
    return bool(match and match["more"])


def _vhost_combined(text: str) -> bool:
    match = _VHOST.match(text)
    return bool(match and _combined(text[match.end() :]))


def _common(text: str) -> bool:
    return bool(_access(text))


def _logfmt(text: str) -> bool:
    fields = logfmt_fields(text)
    return bool(fields) and text.count("=") >= 2 and "=" in text.split(" ", 1)[0]


_TESTS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("docker", _docker),
    ("journald", _journald),
    ("json", _json),
    ("vhost_combined", _vhost_combined),
    ("combined", _combined),
    ("common", _common),
    ("cef", _begins(r"(?:.*[\s>])?CEF:\d\|(?:[^|]*\|){5}")),
    ("leef", _begins(r"(?:.*[\s>])?LEEF:\d\.\d\|(?:[^|]*\|){4}")),
    ("cri", _like(*CRI.patterns)),
    ("syslog", _like(*SYSLOG[:4])),
    ("nginx_error", _like(*NGINX_ERROR.patterns)),
    ("glog", _like(*GLOG.patterns)),
    ("apache_error", _begins(r"\[\w{3} \w{3} \d\d [\d:.]+ \d{4}\] \[(?:\w+:)?\w+\] ")),
    ("logfmt", _logfmt),
)


def sniff(block: bytes) -> str:
    """The format the first lines of a block look like; "" when it cannot be told."""
    lines = Lines(block[: 64 << 10] if b"\n" in block[: 64 << 10] else block)
    texts = [lines.text(row) for row in range(min(len(lines), LINES_MAX))]
    if not texts:
        return ""
    if texts[0].startswith("#") and any(text.startswith("#Fields:") for text in texts):
        return "w3c"
    if block.startswith(b"__CURSOR=") and b"\n__REALTIME_TIMESTAMP=" in block:
        return "journald_export"
    for name, looks in _TESTS:
        if sum(map(bool, map(looks, texts))) >= max(1, SHARE * len(texts)):
            return name
    for name, delimiter in (("csv", COMMA), ("tsv", TAB)):
        widths = {len(csv_row(text, delimiter)) for text in texts}
        header = csv_row(texts[0], delimiter)
        if len(widths) == 1 and len(header) > 1 and all(map(_NAME.fullmatch, header)):
            return name
    return ""
