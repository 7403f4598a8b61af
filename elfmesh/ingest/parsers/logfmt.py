r"""logfmt: pairs `key=value` on a line; only the requested keys are extracted.

`key=value`, `key="quoted \" value"`; a bare `key` is "true", `key=` is "". Of duplicate keys the last wins.
An unclosed quote gives the value "", and parsing continues after it. A line without any pair is an error. The
regular expression here is the definition; the native scanner (see `scanner`) leaves uncertain lines to it,
and a property test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from elfmesh.ingest.parsers.base import read_each, sample
from elfmesh.ingest.parsers.cells import Grid
from elfmesh.ingest.parsers.json_plan import PathTree, describe
from elfmesh.ingest.parsers.lines import Lines
from elfmesh.ingest.parsers.scanner import refused_room
from elfmesh.ingest.parsers.text_fields import Kept, TextParser, Texts

BARE = "true"
_PAIR = re.compile(r'([^\s="]+)(?:(=)(?:"((?:[^"\\]|\\.)*+)"|([^\s"]*+)))?')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}


class LogfmtParser(TextParser):
    """Parser of `key=value` lines."""

    name = "logfmt"
    stateless = True
    _plan: tuple[Any, Sequence[str], Any] = (None, (), None)

    def line_fields(self, text: str) -> Iterable[str]:
        return logfmt_fields(text) or ()

    def texts(self, lines: Lines, names: Sequence[str]) -> tuple[Mapping[str, Texts], Kept, list[str]]:
        scanned = self._scanned(lines, names) if lines.scan is not None and len(lines) else None
        if scanned is not None:
            return scanned
        rows, records, samples = _pairs(lines, range(len(lines)))
        return {name: [record.get(name) for record in records] for name in names}, rows, samples

    def _scanned(
        self, lines: Lines, names: Sequence[str]
    ) -> tuple[Mapping[str, Texts], Kept, list[str]] | None:
        grid = Grid(lines.scan, lines.data, len(names), len(lines))
        grid.side += BARE.encode()
        refused = refused_room(len(lines))
        plan = self._compiled(lines.scan, names)
        open_lines = lines.scan.logfmt(
            plan, lines.data, lines.starts, lines.ends, grid.kinds, grid.words, refused
        )
        if open_lines > len(refused):
            return None
        good, records, samples = _pairs(lines, refused[:open_lines].tolist())
        for row, record in zip(good, records, strict=True):
            for slot, name in enumerate(names):
                grid.put(slot, row, record.get(name))
        rows = grid.drop(refused[:open_lines], good)
        fields = {name: grid.field([slot]).column(pa.string()) for slot, name in enumerate(names)}
        return fields, rows, samples

    def _compiled(self, scan: Any, names: Sequence[str]) -> Any:
        if self._plan[:2] != (scan, names):
            root = PathTree()
            for slot, name in enumerate(names):
                root.children[name] = PathTree(slot)
            self._plan = scan, names, scan.plan(describe(root, len(names)))
        return self._plan[2]


def _pairs(lines: Lines, candidates: Iterable[int]) -> tuple[list[int], list[dict[str, str]], list[str]]:
    return read_each(
        lines.numbered(candidates), logfmt_fields, lambda text: sample("no key=value pair", text)
    )


def logfmt_fields(text: str) -> dict[str, str] | None:
    """Return the pairs of one logfmt line; None if it has no `key=value`."""
    pairs = _PAIR.findall(text)
    if not any(equals for _, equals, _, _ in pairs):
        return None
    return {key: (_unescape(quoted) or plain) if equals else BARE for key, equals, quoted, plain in pairs}


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda m: _ESCAPED.get(m[1], m[1]), text) if "\\" in text else text
