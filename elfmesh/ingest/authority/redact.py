"""Redaction of hidden fields when the log is parsed, so that no reader of records has to do it.

A hidden field is null. A value that is JSON text keeps its structure, with null for hidden fields at any
depth. In other text of a whole line, `***` replaces the values after the names of hidden fields. If a format
has positions instead of names and one of its fields is hidden, a whole line is null. Values without a name
stay: a secret in a query string remains in `path`. Cost: one regular expression over the text columns that
are read, and Python code for rows that match.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from elfmesh.arrow_kernels import pc
from elfmesh.control.jobs.hidden_fields import FieldRules
from elfmesh.control.jobs.policy import META, RAW
from elfmesh.ingest.authority.words import Words, spelled
from elfmesh.ingest.parsers.base import LazyArrays, Parsed, Parser
from elfmesh.ingest.parsers.formats import found_columns

UNSHOWN = "a line that cannot be shown: its format has hidden fields"
DEPTH_MAX = 32
"""Maximum depth of JSON within JSON strings; deeper values are redacted as a whole."""


class Redactor:
    """Redactor of the hidden fields of parsed blocks. Thread-safe."""

    def __init__(self, rules: FieldRules) -> None:
        self._rules = rules
        names = "|".join(sorted(map(spelled, rules.deny), key=len, reverse=True))
        self._suspect = rf"(?i)(?:{names}|\\u00)"
        self._words = Words(rules.deny, rules.hides_path)

    def __call__(self, parser: Parser, parsed: Parsed) -> Parsed:
        if not self._rules:
            return parsed
        placed = any(self._rules.hides_path(name) for name in found_columns(parser) or ())
        makers: dict[str, Callable[[], pa.Array]] = {}
        for name in parsed.arrays:
            if name == RAW:
                makers[name] = partial(self._raw, parsed, placed)
            elif name not in META and self._rules.hides_path(name):
                makers[name] = partial(pa.nulls, parsed.rows)
            elif name not in META:
                makers[name] = partial(self._column, parsed, name)
            else:
                makers[name] = partial(parsed.arrays.__getitem__, name)
        samples = [UNSHOWN if placed else self.text(each) for each in parsed.samples]
        return replace(parsed, arrays=LazyArrays(makers), samples=samples)

    def text(self, text: str) -> str:
        found = self._json(text, 0)
        return self._words(text) if found is None else found

    def _raw(self, parsed: Parsed, placed: bool) -> pa.Array:
        if placed:
            return pa.nulls(parsed.rows, pa.string())
        array = parsed.arrays[RAW]
        return self._replaced(array, pc.match_substring_regex(array, self._suspect))

    def _column(self, parsed: Parsed, name: str) -> pa.Array:
        array = parsed.arrays[name]
        if not pa.types.is_string(array.type) and not pa.types.is_large_string(array.type):
            return array
        objects = pc.or_(pc.starts_with(array, "{"), pc.starts_with(array, "["))
        if not pc.any(objects).as_py():
            return array
        return self._replaced(array, pc.and_(objects, pc.match_substring_regex(array, self._suspect)))

    def _replaced(self, array: pa.Array, mask: pa.Array) -> pa.Array:
        (rows,) = np.nonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))
        if not len(rows):
            return array
        texts = [self.text(text) for text in array.take(pa.array(rows)).to_pylist()]
        return pc.replace_with_mask(array, pc.fill_null(mask, False), pa.array(texts, array.type))

    def _json(self, text: str, depth: int) -> str | None:
        """Return a JSON object or list without hidden values, unchanged if it has none.

        Returns None if the text is neither.
        """
        if text.lstrip()[:1] not in ("{", "["):
            return None
        try:
            value = json.loads(text)
            changed = self._value(value, depth)
        except (ValueError, RecursionError):
            return None
        return text if changed == value else json.dumps(changed, ensure_ascii=False, separators=(",", ":"))

    def _value(self, value: Any, depth: int) -> Any:
        if depth > DEPTH_MAX:
            return None
        if isinstance(value, dict):
            return {
                name: None if self._rules.hides_path(name) else self._value(each, depth + 1)
                for name, each in value.items()
            }
        if isinstance(value, list):
            return [self._value(each, depth + 1) for each in value]
        if isinstance(value, str):
            found = self._json(value, depth + 1)
            return self._words(value) if found is None else found
        return value
