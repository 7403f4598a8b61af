"""Access logs by the server's own configuration: nginx's `log_format` and Apache's `LogFormat` as formats.

    nginx:$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent $request_time
    apache:%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i" %D

Columns that common and combined have keep the names of those formats. All others have the server's name in
lower case with `_`. The text is compiled to one RE2 pattern: a value ends where the next literal begins. For
times and sizes `-` is null. If a server lists one time per upstream (`0.002, 0.010 : 0.001`), the column is
their sum.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers.lines import Lines
from elfmesh.ingest.parsers.pattern_formats.patterns import LineFormat, LinePattern, PatternParser
from elfmesh.ingest.parsers.text_fields import Kept, TextOptions, Texts

_NGINX = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_APACHE = re.compile(r"%([!\d,]*)([<>]?)(?:\{([^}]+)\})?(\^?[A-Za-z%]|\^t[io])")
_NGINX_NAMES = {
    "remote_addr": "host",
    "host": "vhost",
    "remote_user": "user",
    "time_local": "ts",
    "time_iso8601": "ts",
    "msec": "ts",
    "body_bytes_sent": "bytes",
    "http_referer": "referer",
    "http_user_agent": "agent",
}
_APACHE_NAMES = {
    "h": "host",
    "a": "host",
    "l": "ident",
    "u": "user",
    "t": "ts",
    "r": "request",
    "s": "status",
    "b": "bytes",
    "B": "bytes",
    "O": "bytes_sent",
    "I": "bytes_received",
    "S": "bytes_transferred",
    "v": "vhost",
    "V": "server_name",
    "p": "port",
    "D": "time_us",
    "T": "time_s",
    "m": "method",
    "U": "path",
    "q": "query",
    "H": "protocol",
    "X": "connection_status",
    "P": "pid",
    "A": "local_addr",
    "f": "filename",
    "k": "keepalives",
    "L": "log_id",
    "R": "handler",
}
_HEADERS = {"referer": "referer", "user_agent": "agent", "referrer": "referer"}
_INTEGERS = re.compile(
    r"^(?:status|bytes|port|pid|time_us|time_ms|keepalives|connection|connection_requests"
    r"|.*_(?:bytes|length|status|sent|received|transferred))$"
)
_FLOATS = re.compile(r"^(?:time_s|.*_time)$")
_LISTED = r"(?:\d+(?:\.\d+)?|-)(?:(?:, | : )(?:\d+(?:\.\d+)?|-))*"
_KINDS = {"o": "out", "C": "cookie", "e": "env", "n": "note"}
_LISTS = re.compile(r"^upstream_(?:.*_time|status|.*_length|bytes_(?:sent|received))$")
_ADDRESSES = r"[^\s,]+(?:(?:, | : )[^\s,]+)*"
_HOSTS = {"vhost", "host", "http_host", "server_name", "server_addr", "local_addr"}
_REQUEST = ("method", "path", "protocol")


def compile_template(kind: str, text: str) -> LineFormat:
    """Compile a `log_format` ("nginx") or a `LogFormat` ("apache").

    Raises ConfigError if it has no values, or if a value directly follows another.
    """
    pieces = _pieces(kind, text)
    names = [name for name, _ in pieces if name]
    if not names:
        hint = "As in $remote_addr [$time_local]." if kind == "nginx" else "As in %h %t %>s."
        raise ConfigError(f"{text!r} names no value", where=f"format {kind}", hint=hint)
    parts, fields, columns = ["(?s)^"], dict[str, tuple[str, ...]](), list[str]()
    for number, (name, literal) in enumerate(pieces):
        if not name:
            parts.append(re.escape(literal))
            continue
        after = pieces[number + 1] if number + 1 < len(pieces) else ("", "")
        if after[0]:
            raise ConfigError(
                f"{literal} and {after[1]} have no separator between them",
                where=f"format {kind}",
                hint="The parser cannot determine where one value ends and the next begins.",
            )
        before = pieces[number - 1][1][-1:] if number else ""
        group = f"f{number}"
        parts.append(f"(?P<{group}>{_value(name, before, after[1][:1])})")
        fields[name] = (*fields.get(name, ()), group)
        columns += [name, *_REQUEST] if name == "request" else [name]
    if "request" in fields:
        fields |= {each: fields["request"] for each in _REQUEST if each not in fields}
    # More fields may follow after a space, as in common and combined.
    pattern = LinePattern("".join(parts) + r"(?: .*)?$", fields)
    ordered = tuple(dict.fromkeys(columns))
    return LineFormat(pattern, ordered, _types(ordered))


def _pieces(kind: str, text: str) -> list[tuple[str, str]]:
    pieces: list[tuple[str, str]] = []
    at = 0
    literal = ""
    for match in (_NGINX if kind == "nginx" else _APACHE).finditer(text):
        literal += text[at : match.start()]
        at = match.end()
        if kind == "apache" and match[4] == "%":
            literal += "%"
            continue
        if kind == "apache" and match[4] == "t":
            literal += "["
        pieces += [("", literal)] if literal else []
        name = _nginx_name(match) if kind == "nginx" else _apache_name(match)
        pieces.append((name, match[0]))
        literal = "]" if kind == "apache" and match[4] == "t" else ""
    literal += text[at:]
    return [*pieces, ("", literal)] if literal else pieces


def _nginx_name(match: re.Match[str]) -> str:
    name = match[1] or match[2]
    return _NGINX_NAMES.get(name, name.lower())


def _apache_name(match: re.Match[str]) -> str:
    argument, letter = match[3], match[4]
    if argument is None or letter in "tpPhas":
        if letter == "T":
            return "time_s"
        name = _APACHE_NAMES.get(letter)
        if name is None:
            raise ConfigError(f"{match[0]} is not known", where="format apache", hint="See mod_log_config.")
        return name
    if letter == "T":
        return {"us": "time_us", "ms": "time_ms"}.get(argument, "time_s")
    plain = re.sub(r"\W+", "_", argument.lower()).strip("_")
    if letter == "i":
        return _HEADERS.get(plain, plain)
    if letter not in _KINDS:
        raise ConfigError(f"{match[0]} is not known", where="format apache", hint="See mod_log_config.")
    return f"{_KINDS[letter]}_{plain}"


def _value(name: str, before: str, after: str) -> str:
    if before == '"' and after == '"':
        return r'(?:[^"\\]|\\.)*'
    if _LISTS.match(name):
        return _LISTED
    if name == "upstream_addr":
        return _ADDRESSES
    if name == "user" and after == " ":
        return ".+?"
    if after == ":" and name in _HOSTS:
        return r"(?:\[[^\]]*\]|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*|[^:]*)"  # an IPv6 address contains colons
    if after and after not in " \t":
        return f"[^{re.escape(after)}]*" if after != "]" else r"[^\]]*"
    return r"\S*"


def _types(names: Sequence[str]) -> dict[str, pa.DataType]:
    types: dict[str, pa.DataType] = {}
    for name in names:
        if _FLOATS.match(name):
            types[name] = pa.float64()
        elif _INTEGERS.match(name) and name != "upstream_status":
            types[name] = pa.int64()
    return types


class TemplateParser(PatternParser):
    """Parser of lines of a template."""

    def __init__(
        self, source: str, host: str, options: TextOptions, *, name: str, template: LineFormat
    ) -> None:
        super().__init__(
            source,
            host,
            options,
            name=name,
            patterns=(template.pattern,),
            names=template.names,
            types=template.types,
            dashes=tuple(template.types),
        )

    def texts(self, lines: Lines, names: Sequence[str]) -> tuple[Mapping[str, Texts], Kept, list[str]]:
        """Return the values.

        The request is split as in common and combined, and lists of times are summed.
        """
        found, rows, samples = super().texts(lines, names)
        fields = dict(found)
        split = [name for name in _REQUEST if name in fields and self._from_request(name)]
        if split:
            fields |= _request(fields[split[0]], split)
        for name in fields:
            if _LISTS.match(name) and name in self._declared:
                fields[name] = _summed(fields[name])
        return fields, rows, samples

    def _from_request(self, name: str) -> bool:
        groups = self._patterns[0].groups
        return groups.get(name) == groups.get("request")


def _request(texts: pa.Array, names: Sequence[str]) -> dict[str, Texts]:
    """Return method, path and protocol: first, second, and last of three or more words.

    A single word is the path.
    """
    words = pc.extract_regex(
        texts.fill_null(""),
        r"(?s)^ *(?:(?P<method>[^ ]+) +(?P<path>[^ ]+)(?: .*?(?P<protocol>[^ ]+))?|(?P<whole>.*?)) *$",
    )
    whole = pc.equal(words.field("method"), "")
    found = {
        "method": words.field("method"),
        "path": pc.if_else(whole, texts.fill_null(""), words.field("path")),
        "protocol": pc.if_else(pc.equal(words.field("protocol"), ""), None, words.field("protocol")),
    }
    return {name: found[name] for name in names}


def _summed(texts: pa.Array) -> pa.Array:
    listed = pc.match_substring_regex(texts, "[,:]").fill_null(False)
    if not pc.any(listed).as_py():
        return texts
    values = texts.to_pylist()
    for row in listed.to_numpy(zero_copy_only=False).nonzero()[0].tolist():
        numbers = [part for part in re.split(r"[,: ]+", values[row]) if part.strip("-.")]
        total = round(sum(map(float, numbers)), 6)
        values[row] = (f"{total:g}" if total % 1 else str(int(total))) if numbers else None
    return pa.array(values, pa.string())


_COMBINED = '%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"'
_NGINX_COMBINED = (
    '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent'
    ' "$http_referer" "$http_user_agent"'
)
PRESETS: Mapping[str, tuple[str, str]] = {
    "combined_timed": ("apache", _COMBINED + " %D"),
    "nginx_main": ("nginx", _NGINX_COMBINED + ' "$http_x_forwarded_for"'),
    "nginx_timed": ("nginx", _NGINX_COMBINED + " $request_time $upstream_response_time"),
    "nginx_ingress": (
        "nginx",
        _NGINX_COMBINED
        + " $request_length $request_time [$proxy_upstream_name] [$proxy_alternative_upstream_name]"
        " $upstream_addr $upstream_response_length $upstream_response_time $upstream_status $req_id",
    ),
}
"""Formats with a name of their own: the kind of template, and its text."""
