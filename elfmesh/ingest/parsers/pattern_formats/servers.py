"""Error logs of web servers, and glog: tables of patterns, columns in order, and types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from msgspec import Struct, field

from elfmesh.ingest.parsers.pattern_formats.patterns import LinePattern


class PatternTable(Struct, frozen=True):
    """Format that consists only of patterns; see `PatternParser`."""

    patterns: tuple[LinePattern, ...]
    names: tuple[str, ...]
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    dashes: Sequence[str] = ()


def _integers(*names: str) -> dict[str, pa.DataType]:
    return dict.fromkeys(names, pa.int64())


NGINX_ERROR = PatternTable(
    (
        LinePattern(
            r"(?s)^(?P<ts>\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(?:\.\d+)?) \[(?P<level>\w+)\] "
            r"(?P<pid>\d+)#(?P<tid>\d+): "
            r"(?:\*(?P<connection>\d+) )?(?P<message>.*?)(?:, client: (?P<client>[^,]*))?"
            r"(?:, server: (?P<server>[^,]*))?(?:, request: \"(?P<request>.*?)\")?"
            r"(?:, subrequest: \"(?P<subrequest>.*?)\")?(?:, upstream: \"(?P<upstream>.*?)\")?"
            r"(?:, host: \"(?P<host>[^\"]*)\")?(?:, referrer: \"(?P<referrer>.*?)\")?$"
        ),
    ),
    (
        *("ts", "level", "pid", "tid", "connection", "message", "client", "server", "request"),
        *("subrequest", "upstream", "host", "referrer"),
    ),
    _integers("pid", "tid", "connection"),
)

_APACHE_END = r" ?(?P<message>.*?)(?:, referer: (?P<referer>\S+))?$"
APACHE_ERROR = PatternTable(
    (
        LinePattern(
            r"(?s)^\[(?P<ts>[^\]]+)\] \[(?:(?P<module>[^\]:]*):)?(?P<level>[^\]:]+)\] "
            r"\[pid (?P<pid>\d+)(?::tid (?P<tid>[^\]]+))?\](?: (?P<file>\S+\(\d+\)):)?"
            r"(?: (?P<error>\(\d+\)[^:]*):)?(?: \[client (?P<client>[^\]]*?)(?::(?P<port>\d+))?\])?"
            + _APACHE_END
        ),
        LinePattern(
            r"(?s)^\[(?P<ts>[^\]]+)\] \[(?:(?P<module>[^\]:]*):)?(?P<level>[^\]:]+)\]"
            r"(?: \[client (?P<client>[^\]]*)\])?(?: (?P<error>\(\d+\)[^:]*):)?" + _APACHE_END
        ),
    ),
    (
        *("ts", "module", "level", "pid", "tid", "client", "port", "file", "error", "message"),
        "referer",
    ),
    _integers("pid", "port"),
)

GLOG = PatternTable(
    (
        LinePattern(
            r"(?s)^(?P<level>[IWEF])(?P<ts>(?:\d{4})?\d{4} \d\d:\d\d:\d\d\.\d+) +(?P<tid>\d+)"
            r" (?P<file>[^\s:\]]+):(?P<line>\d+)\] ?(?P<message>.*)$"
        ),
    ),
    ("ts", "level", "tid", "file", "line", "message"),
    _integers("tid", "line"),
)

CRI = PatternTable(
    (
        LinePattern(
            r"(?s)^(?P<ts>\S+) (?P<stream>stdout|stderr) (?P<tags>[PF](?::\S*)?)(?: (?P<message>.*))?$"
        ),
    ),
    ("ts", "stream", "message"),
)

RAW = PatternTable((LinePattern(r"(?s)^(?P<_>.)"),), ())

TABLES: Mapping[str, PatternTable] = {
    "nginx_error": NGINX_ERROR,
    "apache_error": APACHE_ERROR,
    "glog": GLOG,
    "raw": RAW,
}
