"""Formats of plug-ins: a class that reads one line becomes a parser of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers.base import SAMPLES_MAX, sample
from elfmesh.ingest.parsers.lines import Lines
from elfmesh.ingest.parsers.schema import DECLARABLE
from elfmesh.ingest.parsers.text_fields import Kept, TextOptions, TextParser, Texts
from elfmesh.plugins import FORMATS, Plugin, plugins, refuse

ARGUMENTS = ("", "?", "!")


def usable_formats(taken: Mapping[str, Any]) -> Mapping[str, Plugin]:
    """Return the formats of plug-ins; refuses those that declare something wrong, or whose name is taken."""
    for plugin in list(plugins(FORMATS).values()):
        if reason := _reason(plugin, taken):
            refuse(plugin, reason)
    return plugins(FORMATS)


def types_of(plugin: Plugin) -> dict[str, pa.DataType]:
    return {name: DECLARABLE[kind] for name, kind in plugin.made.columns.items() if name != "ts"}


def _reason(plugin: Plugin, taken: Mapping[str, Any]) -> str:
    if plugin.name in taken or plugin.name == "auto":
        return "elfmesh has a format of this name"
    columns = getattr(plugin.made, "columns", None)
    if not isinstance(columns, dict) or not columns:
        return "it declares no columns"
    if unknown := [kind for kind in columns.values() if kind not in DECLARABLE]:
        return f"it declares the type {unknown[0]!r}, which is none of {', '.join(DECLARABLE)}"
    if getattr(plugin.made, "argument", "") not in ARGUMENTS:
        return f"it declares argument = {plugin.made.argument!r}, which is none of {ARGUMENTS}"
    return ""


class PluginParser(TextParser):
    """Parser of the lines of a plug-in's format.

    Raises:
        ConfigError: the plug-in refuses the argument.
    """

    stateless = True

    def __init__(
        self, source: str, host: str, options: TextOptions, *, plugin: Plugin, argument: str
    ) -> None:
        declared = types_of(plugin) | dict(options.declared)
        super().__init__(source, host, TextOptions(declared, options.timestamp, options.clock))
        self.name = plugin.name
        self._plugin = plugin
        try:
            self._format = plugin.made(argument)
        except Exception as error:
            line = f"the format {plugin.name} of {plugin.package} refuses {argument!r}: {error}"
            raise ConfigError(line, where="format") from None

    def known_columns(self) -> tuple[str, ...]:
        return tuple(self._plugin.made.columns)

    def texts(self, lines: Lines, names: Sequence[str]) -> tuple[Mapping[str, Texts], Kept, list[str]]:
        rows: list[int] = []
        found: list[Mapping[str, Any]] = []
        samples: list[str] = []
        for row, text in enumerate(lines.texts()):
            record, why = self._read(text)
            if record is not None:
                rows.append(row)
                found.append(record)
            elif len(samples) < SAMPLES_MAX:
                samples.append(sample(why, text))
        known = [name for name in names if name in self._plugin.made.columns]
        texts = {name: [_text(record.get(name)) for record in found] for name in known}
        return texts, None if len(rows) == len(lines) else rows, samples

    def _read(self, text: str) -> tuple[Mapping[str, Any] | None, str]:
        try:
            record = self._format.parse(text)
        except Exception as error:
            return None, f"{self.name}: {type(error).__name__}: {error}"
        if record is not None and not isinstance(record, Mapping):
            return None, f"{self.name} returned {type(record).__name__}, not a mapping"
        return record, f"not {self.name}"


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else str(value)
