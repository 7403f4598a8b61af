"""Attributes of records with their lineage, dependencies between them, and which seals fit which gates.

An attribute is (the stream in which it originates, its name there). A column that a component copies keeps
its attribute, and so does one that an injective function makes, because both have the same partitions.
Every other expression makes a new attribute, about which nothing is known. Dependencies hold between
attributes, never between names: a component may overwrite a column and keep its name.

Paper: Blazes IV-A (seals), V-A (compatible), functional dependencies. Rules: S3, S5, S6.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

INJECTIVE = frozenset({"reverse", "hex", "base64", "url_encode", "unix_micros"})
"""Functions whose result has the partitions of their argument. Digests and arithmetic are not among them:
arithmetic overflows to null and rounds."""

WINDOW = "window"
_CALL = re.compile(r"(\w+)\(\s*([\w.]+)\s*\)")


@dataclass(frozen=True, slots=True, order=True)
class Attribute:
    """Column of a stream; with `windowed`, the window of that time instead of the time."""

    origin: str
    name: str
    windowed: bool = False

    def __str__(self) -> str:
        return f"{WINDOW}({self.name})" if self.windowed else self.name


@dataclass(frozen=True, slots=True)
class Seal:
    """Promise that the partitions of `key` end: by a punctuation for each value, or in order.

    With `ordered`, the key is one time, and the punctuation means that no record below it follows (a
    watermark).
    """

    key: frozenset[Attribute]
    ordered: bool = False

    def __str__(self) -> str:
        names = ", ".join(sorted(map(str, self.key)))
        return f"order({names})" if self.ordered else names


@dataclass(frozen=True, slots=True)
class Dependency:
    """`left` determines `right`; with `injective`, also the reverse."""

    left: frozenset[Attribute]
    right: frozenset[Attribute]
    injective: bool = False


@dataclass(frozen=True, slots=True)
class Columns:
    """What each name means at one place of a dataflow.

    `given` lists names with their attributes. With `origin`, every other name is a column of that stream;
    without, it does not exist.
    """

    origin: str | None
    given: tuple[tuple[str, Attribute], ...] = ()

    def attribute(self, expression: str) -> Attribute | None:
        """Return the attribute of an expression over these columns; None if nothing is known about it."""
        if (call := _CALL.fullmatch(expression)) is None:
            return self._named(expression)
        inner = self._named(call[2])
        if inner is None or call[1] in INJECTIVE:
            return inner
        if call[1] == WINDOW and not inner.windowed:
            return Attribute(inner.origin, inner.name, windowed=True)
        return None

    def _named(self, name: str) -> Attribute | None:
        for each, attribute in self.given:
            if each == name:
                return attribute
        return None if self.origin is None else Attribute(self.origin, name)

    def name_of(self, attribute: Attribute) -> str | None:
        """Return the first name of an attribute; None if no column has it."""
        for name, each in self.given:
            if each == attribute:
                return name
        if self.origin != attribute.origin or any(name == attribute.name for name, _ in self.given):
            return None
        return str(attribute)

    def keeps(self, seal: Seal) -> bool:
        """Return whether each attribute of the key is still a column. Rule: S3."""
        return all(self.name_of(each) is not None for each in seal.key)

    def derived(self, lineage: Sequence[tuple[str, str]] | None, maker: str) -> Columns:
        """Return the columns behind a path of the component output `maker`; None keeps all names."""
        if lineage is None:
            return self
        made = [(name, self.attribute(text) or Attribute(maker, name)) for name, text in lineage]
        return Columns(None, tuple(made))


def merged(columns: Sequence[Columns], place: str) -> Columns:
    """Return the columns where several streams meet: a name keeps its attribute only if all agree.

    Rule: S10.
    """
    first = columns[0]
    if all(each == first for each in columns):
        return first
    names = dict.fromkeys(name for each in columns for name, _ in each.given)
    given = []
    for name in names:
        found = {each.attribute(name) for each in columns}
        alone = found.pop() if len(found) == 1 else None
        given.append((name, alone or Attribute(place, name)))
    origins = {each.origin for each in columns}
    origin = None if origins == {None} else origins.pop() if len(origins) == 1 else place
    return Columns(origin, tuple(given))


def translated(seal: Seal, old: Columns, new: Columns) -> Seal | None:
    """Return a seal in the attributes of merged columns, by the names of its key."""
    names = [old.name_of(each) for each in seal.key]
    key = [new.attribute(name) for name in names if name is not None]
    known = [each for each in key if each is not None]
    return Seal(frozenset(known), seal.ordered) if len(known) == len(seal.key) else None


def closure(attributes: Iterable[Attribute], dependencies: Collection[Dependency]) -> frozenset[Attribute]:
    """Return all attributes that the given ones determine."""
    known, before = set(attributes), -1
    while len(known) != before:
        before = len(known)
        for each in dependencies:
            if each.left <= known:
                known |= each.right
            if each.injective and each.right <= known:
                known |= each.left
    return frozenset(known)


def compatible(gate: Iterable[Attribute], seal: Seal, dependencies: Collection[Dependency]) -> bool:
    """Return whether the end of the seal's partitions ends the gate's partitions.

    The gate must determine the key: then all records of a gate's partition are in one partition of the seal.
    An ordered seal ends every window of its time. Rules: S5, S6.
    """
    known = closure(gate, dependencies)
    if not seal.ordered:
        return seal.key <= known
    return all(bool({each, Attribute(each.origin, each.name, windowed=True)} & known) for each in seal.key)


def compatible_in_paper(gate: Iterable[Attribute], seal: Seal, dependencies: Collection[Dependency]) -> bool:
    """Return whether a part of the gate is an injective function of the whole key.

    Paper: Blazes V-A, with the identity and chains of injective functions.
    """
    allowed = frozenset(gate)
    reached, fresh = {seal.key}, [seal.key]
    while fresh:
        part = fresh.pop()
        if part <= allowed:
            return True
        for each in dependencies:
            if each.injective and each.left == part and each.right not in reached:
                reached.add(each.right)
                fresh.append(each.right)
    return False
