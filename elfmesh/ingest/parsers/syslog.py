"""syslog: RFC 5424, RFC 3164 and the format of daemons in /var/log, distinguished line by line.

    <13>1 2020-03-13T20:45:38.119Z web-1 app 2426 ID931 [sd@32473 user="7"] what happened
    <34>Oct 11 22:14:15 web-1 su[230]: what happened
    Oct 11 22:14:15 web-1 kernel: what happened

The priority is split into `facility` and `severity` (RFC 5424's keywords); without one both are null.
`structured_data` is the JSON object {id: {name: value}}. `-` is null. A line with a priority and no other
known part is all message, as in RFC 3164 (4.3.3); a line without priority and date is not syslog.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.ingest.parsers.lines import Lines
from elfmesh.ingest.parsers.pattern_formats.patterns import LinePattern, PatternParser
from elfmesh.ingest.parsers.text_fields import Kept, TextOptions, Texts

SYSLOG_COLUMNS = (
    "ts",
    "host",
    "app",
    "procid",
    "msgid",
    "facility",
    "severity",
    "priority",
    "version",
    "structured_data",
    "message",
)
SYSLOG_TYPES = {"priority": pa.int64(), "version": pa.int64()}
FACILITIES = (
    *("kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news"),
    *("uucp", "cron", "authpriv", "ftp", "ntp", "security", "console", "solaris-cron"),
    *(f"local{number}" for number in range(8)),
)
SEVERITIES = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")

_PRIORITY = r"<(?P<priority>1[0-8]\d|19[01]|\d{1,2})>"
_MONTHS = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_STAMP = (
    rf"(?P<ts>{_MONTHS} +\d{{1,2}} (?:\d{{4}} )?\d\d:\d\d:\d\d(?:\.\d{{1,9}})?"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"
)
_TAG = r"(?P<app>[^\s:\[]+)(?:\[(?P<procid>[^\]\s]*)\])?:"
_DATA = r'(?P<structured_data>-|(?:\[(?:[^"\]\\]|\\.|"(?:[^"\\]|\\.)*")*\])+)'
PATTERNS = tuple(
    LinePattern("(?s)^" + text)
    for text in (
        rf"{_PRIORITY}(?P<version>[1-9]\d?) (?P<ts>\S+) (?P<host>\S+) (?P<app>\S+) (?P<procid>\S+)"
        rf" (?P<msgid>\S+) {_DATA}(?: \x{{FEFF}}?(?P<message>.*))?$",
        # A host may contain colons (IPv6) but not end with one: that would be a tag, without a host.
        rf"(?:{_PRIORITY})?{_STAMP} (?P<host>\S*[^\s:]) {_TAG} ?(?P<message>.*)$",
        rf"(?:{_PRIORITY})?{_STAMP} {_TAG}(?: (?P<message>.*))?$",
        rf"(?:{_PRIORITY})?{_STAMP} (?P<host>\S+) (?P<message>.*)$",
        rf"{_PRIORITY}(?P<message>.*)$",
    )
)
_ELEMENT = re.compile(r'\[([^\s=\]"]+)((?:[^"\]\\]|\\.|"(?:[^"\\]|\\.)*+")*+)\]')
_PARAMETER = re.compile(r'([^\s=\]"]+)=\s*"((?:[^"\\]|\\.)*+)"')
_ESCAPE = re.compile(r'\\(["\\\]])')
DATA = "structured_data"


class SyslogParser(PatternParser):
    """Parser of syslog lines of any kind."""

    def __init__(self, source: str, host: str, options: TextOptions) -> None:
        super().__init__(
            source,
            host,
            options,
            name="syslog",
            patterns=PATTERNS,
            names=SYSLOG_COLUMNS,
            types=SYSLOG_TYPES,
            dashes=("ts", "host", "app", "procid", "msgid", DATA),
        )

    def texts(self, lines: Lines, names: Sequence[str]) -> tuple[Mapping[str, Texts], Kept, list[str]]:
        inner = [name for name in names if name.startswith(DATA + ".")]
        groups = {_GROUPS.get(name, name): None for name in names if name not in inner}
        found, rows, samples = super().texts(lines, [*groups, DATA] if inner else list(groups))
        fields = dict(found)
        if "facility" in names or "severity" in names:
            priority = pc.cast(fields["priority"], pa.int64())
            codes = priority.fill_null(0).to_numpy()
            for name, words, places in (
                ("facility", FACILITIES, codes >> 3),
                ("severity", SEVERITIES, codes & 7),
            ):
                taken = pa.array(words).take(pa.array(places.astype(np.int64)))
                fields[name] = pc.if_else(priority.is_valid(), taken, None)
        if DATA in names or inner:
            fields |= _structured(fields[DATA], inner)
        return fields, rows, samples


_GROUPS = {"facility": "priority", "severity": "priority"}


def _structured(texts: Texts, paths: Sequence[str]) -> dict[str, Texts]:
    """Return structured data as JSON, and parameters at some paths.

    Cost: Python code for lines that have any.
    """
    elements = [None if text is None else parse_elements(text) for text in _values(texts)]
    out: dict[str, Texts] = {
        DATA: [None if each is None else msgspec.json.encode(each).decode() for each in elements]
    }
    for path in paths:
        inside = path[len(DATA) + 1 :]
        out[path] = [None if each is None else _at(each, inside) for each in elements]
    return out


def _values(texts: Texts) -> list[str | None]:
    return texts.to_pylist() if isinstance(texts, pa.Array) else list(texts)


def _at(elements: Mapping[str, Mapping[str, str]], path: str) -> str | None:
    """Return the value at `id.name`, where both may contain dots; for an id alone, its object."""
    if path in elements:
        return msgspec.json.encode(elements[path]).decode()
    for name, parameters in elements.items():
        if path.startswith(name + "."):
            value = parameters.get(path[len(name) + 1 :])
            if value is not None:
                return value
    return None


def parse_elements(text: str) -> dict[str, dict[str, str]]:
    """Return RFC 5424's structured data by id and name; of duplicates, the last."""
    return {
        name: {key: _ESCAPE.sub(r"\1", value) for key, value in _PARAMETER.findall(rest)}
        for name, rest in _ELEMENT.findall(text)
    }
