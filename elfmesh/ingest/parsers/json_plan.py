"""Reading plan for a set of dotted paths in JSON: a msgspec decoder, and a description for the scanner.

A path refers to nested objects first; if they do not exist, to a key with literal dots, at any depth.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Union

import msgspec

Getter = Callable[[list[Any]], list[Any]]
_REFUSED = re.compile(r'["\\\x00-\x1f]')
"""Characters that the name of a field of a msgspec type must not contain."""

PARTS_MAX = 16
"""Maximum number of parts of a path with all interpretations, which grow with the square of the parts. Longer
paths are nested or one key."""


class PathTree:
    """Requested paths as a tree of names.

    `asked`: a path ends here. `kind` is the decoder's class for an object here (None: a dict); `slot` is the
    scanner's slot (-1: none).
    """

    __slots__ = ("asked", "children", "kind", "slot")

    def __init__(self, slot: int = -1) -> None:
        self.asked = False
        self.children: dict[str, PathTree] = {}
        self.kind: Any = None
        self.slot = slot

    def walk(self) -> Iterator[PathTree]:
        yield self
        for child in self.children.values():
            yield from child.walk()


class JsonPlan:
    """Decoder for a set of dotted paths, and the access to each path in its results."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._root = PathTree()
        self.slots: dict[str, tuple[int, ...]] = {}
        """For each path: the scanner's slots of its interpretations, best first."""
        count = 0
        for path in paths:
            readings = _readings(path)
            for slot, parts in enumerate(readings, count):
                node = self._root
                for part in parts:
                    node = node.children.setdefault(part, PathTree())
                node.asked = True
                node.slot = slot
            self.slots[path] = tuple(range(count, count + len(readings)))
            count += len(readings)
        self.slot_count = count
        self._compiled: tuple[Any, Any] = (None, None)
        self.decoder = msgspec.json.Decoder(_struct(self._root))
        self._getters = {path: self._getter(path) for path in paths}

    def compiled(self, scan: Any) -> Any:
        if self._compiled[0] is not scan:
            self._compiled = scan, scan.plan(describe(self._root, self.slot_count))
        return self._compiled[1]

    def values(self, path: str, objects: list[Any], cache: dict[str, list[Any]]) -> list[Any]:
        """Return the value at `path` in every object, None if there is none."""
        if path not in cache:
            cache[path] = self._getters[path](objects)
        return cache[path]

    def _getter(self, path: str) -> Getter:
        nested, *literals = [self._walk(parts) for parts in _readings(path)]
        if not literals:
            return nested

        def nested_or_literal(objects: list[Any]) -> list[Any]:
            values = nested(objects)
            for literal in literals:
                if None not in values:
                    break
                flat = literal(objects)
                values = [new if old is None else old for old, new in zip(values, flat, strict=True)]
            return values

        return nested_or_literal

    def _walk(self, parts: Sequence[str]) -> Getter:
        node = self._root
        steps: list[Callable[[list[Any]], list[Any]]] = []
        plain = node.kind is None
        for part in parts:
            steps.append(_dict_step(part) if plain else _field_step(node, part))
            node = node.children[part]
            plain = plain or node.kind is None

        def walk(objects: list[Any]) -> list[Any]:
            values = objects
            for step in steps:
                values = step(values)
            return values

        return walk


def describe(root: PathTree, slots: int) -> bytes:
    """Encode a tree of names for the scanner.

    Nodes, parents first: slot plus one, number of names, and for each name its node, length and text.
    """
    nodes = list(root.walk())
    number = {id(node): at for at, node in enumerate(nodes)}
    parts = [struct.pack("=II", len(nodes), slots)]
    for node in nodes:
        parts.append(struct.pack("=II", node.slot + 1, len(node.children)))
        for name, child in node.children.items():
            text = name.encode()
            parts += [struct.pack("=II", number[id(child)], len(text)), text]
    return b"".join(parts)


def _readings(path: str) -> list[list[str]]:
    """Return the interpretations of a dotted path, best first: nested, then with keys that contain dots."""
    parts = path.split(".")
    readings = [parts]
    if len(parts) > PARTS_MAX:
        return [parts, [path]]
    for width in range(len(parts), 1, -1):
        readings += [
            [*parts[:at], ".".join(parts[at : at + width]), *parts[at + width :]]
            for at in range(len(parts) - width + 1)
        ]
    return readings


def _struct(node: PathTree) -> Any:
    """Return a msgspec type for an object with the node's children; sets the `kind` of every inner object.

    A requested node with children is decoded completely (kind None) and accessed as a dict. So is a node with
    a name that msgspec refuses.
    """
    if any(_REFUSED.search(name) for name in node.children):
        return dict
    fields: list[Any] = []
    for number, (name, child) in enumerate(node.children.items()):
        kind: Any = Any
        if child.children and not child.asked:
            inner = _struct(child)
            kind = Union[inner, str, int, float, bool, list, None]  # noqa: UP007 - built at run time
        fields.append((f"f{number}", kind, msgspec.field(default=None, name=name)))
    node.kind = msgspec.defstruct("Fields", fields, gc=False)
    return node.kind


def _field_step(node: PathTree, name: str) -> Getter:
    attribute = f"f{list(node.children).index(name)}"
    get, kind = attrgetter(attribute), node.kind

    def step(values: list[Any]) -> list[Any]:
        try:
            return list(map(get, values))
        except AttributeError:
            return [get(value) if type(value) is kind else None for value in values]

    return step


def _dict_step(name: str) -> Getter:
    def step(values: list[Any]) -> list[Any]:
        return [value.get(name) if type(value) is dict else None for value in values]

    return step
