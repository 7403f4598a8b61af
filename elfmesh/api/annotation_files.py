"""Reads annotation files of coordination, YAML or JSON, as plain values with their lines.

The files are hostile: the reader makes no objects, and refuses aliases, tags, repeated keys, more than 1
MiB and deep nesting. YAML needs the extra `blazes`, which is imported only if a YAML file is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elfmesh.control.coordination.document import Document, Where
from elfmesh.errors import DataError, NotInstalled, RuntimeFailure

BYTES_MAX = 1 << 20
DEPTH_MAX = 16
SUFFIXES = (".yaml", ".yml", ".json")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "~", ""), None),
}


def read_document(path: str) -> Document:
    """Read an annotation file.

    Raises:
        RuntimeFailure: the file cannot be read.
        DataError: its content is refused, with file and line.
        NotInstalled: it is YAML, and the extra `blazes` is not installed.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise RuntimeFailure(error.strerror or str(error), where=path, hint="Check the path.") from None
    return parse_document(data, path)


def parse_document(data: bytes, path: str) -> Document:
    """Parse the bytes of an annotation file; its name decides between JSON and YAML."""
    if len(data) > BYTES_MAX:
        raise DataError(f"more than {BYTES_MAX >> 20} MiB", where=f"{path}:1")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise DataError(
            f"not UTF-8 at byte {error.start}", where=f"{path}:{line}", hint="Save the text as UTF-8."
        ) from None
    return _json(text, path) if path.endswith(".json") else _yaml(text, path)


def _json(text: str, path: str) -> Document:
    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(found)
        if len(values) < len(found):
            raise DataError("a key occurs twice in one object", where=path)
        return values

    depth = 0
    for letter in text:  # the parser of the standard library recurses
        depth += (letter in "[{") - (letter in "]}")
        if depth > DEPTH_MAX:
            raise DataError(f"nested deeper than {DEPTH_MAX}", where=path)
    try:
        return Document(path, json.loads(text, object_pairs_hook=pairs))
    except json.JSONDecodeError as error:
        raise DataError(
            f"not JSON: {error.msg}",
            where=f"{path}:{error.lineno}",
            hint="Write the file as JSON, with double quotes and without comments.",
        ) from None
    except ValueError:  # a number of thousands of digits
        raise DataError("not JSON: a number that is too long", where=path) from None


def _yaml(text: str, path: str) -> Document:
    try:
        import yaml
    except ImportError:
        raise NotInstalled(
            "YAML files need pyyaml", where=path, hint="pip install 'elfmesh[blazes]', or write JSON."
        ) from None
    events = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    try:
        return _built(events, path)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = (error.problem or error.context or "syntax error").splitlines()[0]
        line = mark.line + 1 if mark else 1
        raise DataError(f"not YAML: {problem}", where=f"{path}:{line}") from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise DataError("not YAML: a character that YAML does not allow", where=f"{path}:{line}") from None
    except yaml.YAMLError:
        raise DataError("not YAML", where=f"{path}:1") from None


class _Builder:
    """Makes plain values from events, without recursion."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lines: dict[Where, int] = {}
        self.root: Any = None
        self.open: list[tuple[Any, Where]] = []
        self.key: list[str | None] = []

    def wrong(self, message: str, line: int) -> DataError:
        return DataError(message, where=f"{self.path}:{line}")

    def add(self, value: Any, line: int) -> Where:
        """Put a value where it belongs, and return its place."""
        if not self.open:
            self.root, self.lines[()] = value, line
            return ()
        container, where = self.open[-1]
        if isinstance(container, list):
            place = (*where, len(container))
            container.append(value)
        elif self.key[-1] is None:
            if not isinstance(value, str):
                raise self.wrong("a key must be a text", line)
            if value in container:
                raise self.wrong(f"the key {ascii(value)[:100]} occurs twice", line)
            self.key[-1] = value
            self.lines[(*where, value)] = line
            return where
        else:
            place = (*where, self.key[-1])
            container[self.key[-1]] = value
            self.key[-1] = None
        self.lines[place] = line
        return place

    def begin(self, container: Any, line: int) -> None:
        if len(self.open) >= DEPTH_MAX:
            raise self.wrong(f"nested deeper than {DEPTH_MAX}", line)
        self.open.append((container, self.add(container, line)))
        self.key.append(None)

    def end(self) -> None:
        self.open.pop()
        self.key.pop()


def _built(events: Iterator[Any], path: str) -> Document:
    built, documents = _Builder(path), 0
    for event in events:
        kind = type(event).__name__
        line = event.start_mark.line + 1 if event.start_mark else 1
        if kind == "AliasEvent" or getattr(event, "anchor", None):
            raise built.wrong("aliases and anchors are not allowed", line)
        if getattr(event, "tag", None):
            raise built.wrong("tags are not allowed", line)
        documents += kind == "DocumentStartEvent"
        if documents > 1:
            raise built.wrong("more than one document", line)
        if kind == "ScalarEvent":
            plain = event.style in (None, "")
            built.add(_WORDS.get(event.value, event.value) if plain else event.value, line)
        elif kind == "MappingStartEvent":
            built.begin({}, line)
        elif kind == "SequenceStartEvent":
            built.begin([], line)
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            built.end()
    return Document(path, built.root, built.lines)
