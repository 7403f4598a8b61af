r"""grok: `%{NAME:field:type}` in a text is compiled to one RE2 pattern.

    grok:%{COMBINEDAPACHELOG}
    grok:%{TIMESTAMP_ISO8601:ts} %{LOGLEVEL:level} (?P<where>\S+) %{NUMBER:seconds:float} %{DATA:message}$

A name without a field gives no column. Types are int, long, float, double, string and boolean. A field may
have any name (`nginx.access.url`, `[http][status]`); if it occurs several times, the first non-empty value is
used. A stream's own patterns override the built-in ones. Unknown names, cycles and patterns that are too
large are refused when the format is declared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa
from msgspec import Struct, field

from elfmesh.arrow_kernels import pc
from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers.pattern_formats.grok_patterns import PATTERNS
from elfmesh.ingest.parsers.pattern_formats.patterns import LineFormat, LinePattern
from elfmesh.text import suggest

DEPTH_MAX = 32
TEXT_MAX = 64 << 10
"""Maximum number of characters of the expanded pattern; the largest built-in ones have 3,000."""

_NAME = re.compile(r"%\{(\w+)(?::([^:}]+))?(?::(\w+))?\}|\(\?P?<(\w+)>|\\.")
_TYPES = {
    **dict.fromkeys(("int", "long"), pa.int64()),
    **dict.fromkeys(("float", "double"), pa.float64()),
    **dict.fromkeys(("bool", "boolean"), pa.bool_()),
    "string": pa.string(),
}


class _Resolver(Struct):
    patterns: Mapping[str, str]
    fields: dict[str, tuple[str, ...]] = field(default_factory=dict)
    types: dict[str, pa.DataType] = field(default_factory=dict)
    groups: int = 0
    size: int = 0

    def resolve(self, text: str, within: tuple[str, ...] = ()) -> str:
        parts: list[str] = []
        at = 0
        for match in _NAME.finditer(text):
            parts.append(text[at : match.start()])
            at = match.end()
            if match[4]:
                parts.append(self._group(match[4]))
            elif match[1]:
                parts.append(self._named(match, within))
            else:
                parts.append(match[0])
        parts.append(text[at:])
        whole = "".join(parts)
        self.size += len(whole)
        if self.size > TEXT_MAX * (DEPTH_MAX if within else 1):
            raise _refusal("the pattern is too large once its names are resolved")
        return whole

    def _named(self, match: re.Match[str], within: tuple[str, ...]) -> str:
        name, column, kind = match[1], match[2], match[3]
        if name in within or len(within) >= DEPTH_MAX:
            raise _refusal(f"%{{{name}}} refers to itself")
        body = self.patterns.get(name)
        if body is None:
            hint = suggest(name, self.patterns)
            hint = hint or f"Define it: --pattern {name}=REGEX, or `patterns` in the stream."
            raise _refusal(f"%{{{name}}} is not a pattern", hint)
        inner = self.resolve(body, (*within, name))
        if not column:
            return f"(?:{inner})"
        if kind:
            if kind not in _TYPES:
                raise _refusal(f"{kind!r} is not a type", f"One of {', '.join(_TYPES)}.")
            self.types[column] = _TYPES[kind]
        return f"{self._group(column)}{inner})"

    def _group(self, column: str) -> str:
        group = f"g{self.groups}"
        self.groups += 1
        self.fields[column] = (*self.fields.get(column, ()), group)
        return f"(?P<{group}>"


def compile_grok(text: str, own: Mapping[str, str] | None = None) -> LineFormat:
    """Compile a grok text, as after `grok:`, with the user's own patterns by name. Raises ConfigError."""
    resolver = _Resolver({**PATTERNS, **(own or {})})
    whole = resolver.resolve(text)
    if not resolver.fields:
        raise _refusal(f"{text!r} names no column", "As in %{LOGLEVEL:level} %{GREEDYDATA:message}.")
    try:
        pc.extract_regex(pa.array([""]), whole)
    except pa.ArrowInvalid as error:
        reason = str(error).removeprefix("Invalid regular expression: ")
        hint = "RE2 syntax: no look-around, no back references, no atomic groups."
        raise _refusal(f"the pattern is not valid: {reason}", hint) from None
    types = {name: kind for name, kind in resolver.types.items() if not pa.types.is_string(kind)}
    return LineFormat(LinePattern(whole, resolver.fields), tuple(resolver.fields), types)


def _refusal(message: str, hint: str = "") -> ConfigError:
    return ConfigError(message, where="format grok", hint=hint)
