"""Expansion of named windows, `OVER w ... WINDOW w AS (PARTITION BY a ORDER BY b)`, in the parse tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

Complain = Callable[..., Exception]
_PARTS = ("partition_by", "order", "spec")


def with_windows(tree: exp.Select, error: Complain) -> exp.Select:
    """Return the SELECT with each `OVER name` replaced by the definition of the window."""
    if not tree.args.get("windows"):
        return tree
    tree = tree.copy()
    known: dict[str, Any] = {}
    for one in tree.args.get("windows") or ():
        name = one.name.lower()
        if name in known or one.args.get("alias") is not None:
            raise error(
                one, f"the window {one.name} is defined twice or refers to another window", "Write it out."
            )
        known[name] = one
    for node in list(tree.find_all(exp.Window)):
        named = node.args.get("alias")
        if named is None or node.parent_select is not tree or node.arg_key == "windows":
            continue
        found = known.get(named.name.lower())
        if found is None or any(node.args.get(part) for part in _PARTS):
            raise error(node, f"there is no window {named.name}", f"There are {', '.join(known)}.")
        node.set("alias", None)
        for part in _PARTS:
            given = found.args.get(part)
            copied = [each.copy() for each in given] if isinstance(given, list) else given and given.copy()
            node.set(part, copied)
    tree.set("windows", None)
    return tree
