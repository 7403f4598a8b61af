"""Pairs on a line with custom separators: kv, and the security formats CEF and LEEF.

    kv:k:v, k:v       the argument shows two pairs: the text between key and value, and between pairs
    CEF:0|vendor|product|version|class|name|severity|src=10.0.0.1 msg=two words
    LEEF:2.0|vendor|product|version|event|^|src=10.0.0.1^usrName=joe

RE2 searches for each requested key in all lines at once; kv lines with a quote use the slow path. kv: of
duplicate keys the last wins, a key without a value is "true", quotes are removed. CEF: a value extends to the
next ` key=`, of duplicates the first wins, escapes are resolved, text before `CEF:` is ignored. The header's
fields are device_vendor, device_product, device_version, device_event_class_id (LEEF: event_id), name,
severity.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers.base import SAMPLES_MAX, read_each, sample
from elfmesh.ingest.parsers.lines import Lines
from elfmesh.ingest.parsers.pattern_formats.patterns import LinePattern, extract
from elfmesh.ingest.parsers.text_fields import Kept, TextOptions, TextParser, Texts

BARE = "true"
BLANKS = " \t\n\r\f"
_BLANK = r"[ \t\n\r\f]"
"""RE2's white space; Python's includes more characters."""

_EXAMPLE = re.compile(r"k(?P<assign>.+?)v(?P<between>.+?)k(?P=assign)v")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}


def kv_separators(argument: str) -> tuple[str, str]:
    """Return the separators of key and value, and of pairs, from the example `k=v;k=v`; "" is `k=v k=v`."""
    match = _EXAMPLE.fullmatch(argument or "k=v k=v")
    if match is None or "\n" in argument or '"' in argument:
        raise ConfigError(
            f"{argument!r} does not show two pairs",
            where="format kv",
            hint="Write two pairs k and v as they appear in the log: kv:k=v;k=v or kv:k:v, k:v.",
        )
    return match["assign"], match["between"]


class KvParser(TextParser):
    """Parser of pairs; white space around `between` is ignored."""

    name = "kv"

    def __init__(self, source: str, host: str, options: TextOptions, *, assign: str, between: str) -> None:
        super().__init__(source, host, options)
        self._assign = assign.strip(BLANKS) or " "
        self._between = between.strip(BLANKS)
        self._gap = f"{_BLANK}*{re.escape(self._between)}{_BLANK}*" if self._between else f"{_BLANK}+"
        self._around = f"{_BLANK}*" if self._between else ""
        # Blanks are matched as a run; matched one by one, the cost would be quadratic.
        ahead = f"{_BLANK}*+{re.escape(self._between)}" if self._between else _BLANK
        self._pieces = re.compile(
            rf"(?s)((?:{_QUOTED.pattern}|(?!{ahead})(?:{_BLANK}++|.))*+)(?:{self._gap}|\Z)"
        )

    def line_fields(self, text: str) -> Iterable[str]:
        return self.fields(text) or ()

    def texts(self, lines: Lines, names: Sequence[str]) -> tuple[Mapping[str, Texts], Kept, list[str]]:
        if b'"' in lines.data:
            return self._each(lines, names)
        raw = lines.raw()
        good = pc.match_substring(raw, self._assign).to_numpy(zero_copy_only=False)
        samples = [self._sample(lines.text(row)) for row in np.flatnonzero(~good)[:SAMPLES_MAX].tolist()]
        kept = None if good.all() else np.flatnonzero(good)
        texts = raw if kept is None else raw.filter(pa.array(good))
        return {name: self._value(texts, name) for name in names}, kept, samples

    def _value(self, texts: pa.Array, name: str) -> pa.Array:
        if self._assign in name or name != name.strip(BLANKS) or re.search(self._gap, name) or not name:
            return pa.nulls(len(texts), pa.string())
        found = pc.extract_regex(
            texts,
            rf"(?s)^(?:.*{self._gap}|{_BLANK}*){re.escape(name)}"
            rf"(?:(?P<set>{self._around}{re.escape(self._assign)})(?P<value>{self._body()}))?"
            rf"(?:{self._gap}|{_BLANK}*$)",
        )
        values = pc.utf8_trim(found.field("value"), BLANKS)
        whole = pc.if_else(pc.equal(found.field("set"), ""), BARE, values)
        return pc.if_else(found.is_valid(), whole, None)

    def _body(self) -> str:
        if not self._between:
            return r"[^ \t\n\r\f]*"
        return f"[^{re.escape(self._between)}]*" if len(self._between) == 1 else ".*?"

    def _each(self, lines: Lines, names: Sequence[str]) -> tuple[Mapping[str, Texts], Kept, list[str]]:
        rows, records, samples = read_each(enumerate(lines.texts()), self.fields, self._sample)
        return {name: [record.get(name) for record in records] for name in names}, rows, samples

    def fields(self, text: str) -> dict[str, str] | None:
        """Return the pairs of one line; None if there are none. This is the definition."""
        if self._assign not in text:
            return None
        record: dict[str, str] = {}
        at, cut = 0, _without_open_quotes(text)
        while at < len(text) and (match := self._pieces.match(cut, at)) and match.end() > at:
            at = match.end()
            key, assigned, value = text[match.start(1) : match.end(1)].partition(self._assign)
            key, value = key.strip(BLANKS), value.strip(BLANKS)
            if key:
                record[key] = _unquoted(value) if assigned else BARE
        return record

    def _sample(self, text: str) -> str:
        return sample(f"no pair with {self._assign!r}", text)


def _without_open_quotes(text: str) -> str:
    at = text.find('"')
    while at >= 0:
        quoted = _QUOTED.match(text, at)
        if quoted is None:
            return text[:at] + text[at:].replace('"', "'")
        at = text.find('"', quoted.end())
    return text


def _unquoted(value: str) -> str:
    return _unescaped(value[1:-1]) if _QUOTED.fullmatch(value) else value


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), text)


_CEF_HEADER = (
    "cef_version",
    "device_vendor",
    "device_product",
    "device_version",
    "device_event_class_id",
    "name",
    "severity",
)
_LEEF_HEADER = ("leef_version", "device_vendor", "device_product", "device_version", "event_id", "delimiter")
_STAMP = r"(?P<stamp>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S+)"
"""Time in an optional syslog header."""
_CELL = r"(?:[^|\\]|\\.)*"


def _header(word: str, names: Sequence[str], tail: str) -> str:
    first, *rest = names
    cells = r"\|".join(f"(?P<{name}>{_CELL})" for name in rest)
    before = rf"(?:(?:<\d{{1,3}}>)?(?:\d )?{_STAMP} )?(?:.*?[\s>])?"
    return rf"(?s)^{before}{word}:(?P<{first}>\d+(?:\.\d+)?)\|{cells}{tail}"


_CEF = LinePattern(_header("CEF", _CEF_HEADER, r"(?:\|(?P<extension>.*))?$"))
_LEEF = (
    LinePattern(
        _header(
            "LEEF",
            _LEEF_HEADER[:-1],
            r"\|(?:(?P<delimiter>[^|=\s]|0?x[0-9A-Fa-f]{2,4}|\s?)\|)?(?P<extension>.*)$",
        )
    ),
)


class CefParser(TextParser):
    """Parser of CEF, with or without a syslog header."""

    name = "cef"
    header: Sequence[str] = _CEF_HEADER
    patterns: Sequence[LinePattern] = (_CEF,)
    times: Sequence[str] = ("rt", "deviceReceiptTime", "end", "start", "stamp")

    def __init__(self, source: str, host: str, options: TextOptions) -> None:
        super().__init__(source, host, options)
        if options.timestamp is None:
            self._timestamps = self.times

    def line_fields(self, text: str) -> Iterable[str]:
        return (*self.header, *re.findall(r"(?:^|[\s|])([\w.\[\]-]+)=", text))

    def texts(self, lines: Lines, names: Sequence[str]) -> tuple[Mapping[str, Texts], Kept, list[str]]:
        head = [name for name in names if name in self.header or name == "stamp"]
        keys = [name for name in names if name not in head]
        asked = [*head, *(("delimiter", "extension") if keys else ())]
        found, rows, samples = extract(lines, self.patterns, asked, f"not a line of the {self.name} format")
        fields: dict[str, Texts] = {name: self._unescaped(found[name]) for name in head}
        if keys:
            values = self._values(found, found["extension"].fill_null(""), keys)
            fields |= {name: self._unescaped(value) for name, value in zip(keys, values, strict=True)}
        return fields, rows, samples

    def _values(
        self, found: Mapping[str, pa.Array], extensions: pa.Array, keys: Sequence[str]
    ) -> list[pa.Array]:
        end = r"(?:\s+[A-Za-z0-9_.\[\]-]+=|\s*$)"
        return [_valued(extensions, rf"(?s)(?:^|\s){re.escape(key)}=(?P<value>.*?){end}") for key in keys]

    def _unescaped(self, texts: pa.Array) -> pa.Array:
        if not pc.any(pc.match_substring(texts, "\\")).as_py():
            return texts
        values: list[Any] = texts.to_pylist()
        return pa.array([value and _unescaped(value) for value in values], pa.string())


def _valued(texts: pa.Array, pattern: str) -> pa.Array:
    found = pc.extract_regex(texts, pattern)
    return pc.if_else(found.is_valid(), found.field("value"), None)


class LeefParser(CefParser):
    """Parser of LEEF 1.0 (pairs separated by tabs) and 2.0 (by the declared character)."""

    name = "leef"
    header = _LEEF_HEADER
    patterns = _LEEF
    times = ("devTime", "stamp")

    def _values(
        self, found: Mapping[str, pa.Array], extensions: pa.Array, keys: Sequence[str]
    ) -> list[pa.Array]:
        """Use RE2 if all lines have the same delimiter, else parse line by line."""
        marks = [_character(each) for each in found["delimiter"].fill_null("\t").to_pylist()]
        if len(set(marks)) == 1 and not "\ud800" <= marks[0] <= "\udfff":  # no pattern holds a surrogate
            mark = re.escape(marks[0])
            begin, end = rf"(?s)(?:^|{mark})", rf"(?:{mark}|$)"
            return [_valued(extensions, rf"{begin}{re.escape(key)}=(?P<value>.*?){end}") for key in keys]
        lines = [text.split(mark) for text, mark in zip(extensions.to_pylist(), marks, strict=True)]
        return [pa.array([_first(pairs, f"{key}=") for pairs in lines], pa.string()) for key in keys]


def _first(pairs: list[str], start: str) -> str | None:
    return next((pair[len(start) :] for pair in pairs if pair.startswith(start)), None)


def _character(delimiter: str) -> str:
    if len(delimiter) > 1:
        return chr(int(delimiter.partition("x")[2], 16))
    return delimiter or "\t"
