"""Statements as trees: each part is written in both languages, and a tree can be made smaller.

A part is a template in ELF-QL and one in the oracle's SQL over the same parts; the two may differ, because
the languages spell or mean some things differently. A failing statement is made smaller by taking parts away,
and by putting a part in the place of one around it: what still fails in the same way is the new statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Node:
    """One part of a statement.

    Attributes:
        sort: what may stand in its place: a type of value, "query", or "" if nothing else may.
        elf: its text in ELF-QL, with {0} for its first part.
        duck: its text for the oracle.
        parts: what it is made of.
        listed: instead of the templates, its parts are written with this text between them.
        spare: it may be left out.
    """

    sort: str
    elf: str
    duck: str
    parts: tuple[Node, ...] = ()
    listed: str | None = None
    spare: bool = False

    def texts(self) -> tuple[str, str]:
        """The text in ELF-QL, and for the oracle."""
        pairs = [part.texts() for part in self.parts]
        ours, theirs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        if self.listed is not None:
            return self.listed.join(filter(None, ours)), self.listed.join(filter(None, theirs))
        return self.elf.format(*ours), self.duck.format(*theirs)

    @property
    def size(self) -> int:
        return 1 + sum(part.size for part in self.parts)


Statement: TypeAlias = Node
NOTHING = Node("", "", "")


def same(sort: str, text: str, *parts: Node) -> Node:
    """A part that both languages write alike."""
    return Node(sort, text, text, parts)


def two(sort: str, elf: str, duck: str, *parts: Node) -> Node:
    """A part that the languages write differently."""
    return Node(sort, elf, duck, parts)


def listed(between: str, parts: list[Node]) -> Node:
    """Parts one after the other; each may be left out if it is `spare`."""
    return Node("", "", "", tuple(parts), listed=between)


def spare(node: Node) -> Node:
    """The same part, which may be left out."""
    return replace(node, spare=True)


def raw(text: str) -> str:
    """A text as a template without parts."""
    return text.replace("{", "{{").replace("}", "}}")


def smaller(node: Node) -> Iterator[Node]:
    """Trees with less in them than this one; the greatest steps come first."""
    for inner in sorted(_inside(node), key=lambda each: each.size):
        if node.sort and inner.sort == node.sort:
            yield inner
    for at, part in enumerate(node.parts):
        before, after = node.parts[:at], node.parts[at + 1 :]
        if part.spare:
            if node.listed is not None:
                yield replace(node, parts=before + after)
            else:
                yield replace(node, parts=(*before, NOTHING, *after))
        for less in smaller(part):
            yield replace(node, parts=(*before, replace(less, spare=part.spare), *after))


def _inside(node: Node) -> Iterator[Node]:
    for part in node.parts:
        yield part
        yield from _inside(part)


def shrink(node: Node, fails: Callable[[Node], bool], tries: int = 2000) -> Node:
    """The smallest tree found that still fails.

    Args:
        node: fails.
        fails: whether a tree fails in the same way.
        tries: how many trees are tried at most.
    """
    going = True
    while going and tries > 0:
        going = False
        for less in smaller(node):
            tries -= 1
            if tries <= 0:
                break
            if less.size < node.size and fails(less):
                node, going = less, True
                break
    return node
