"""How many entries every container has that an object holds, directly or not: what grows shows.

Counts entries and objects, not bytes: the same run gives the same counts.
"""

from __future__ import annotations

import asyncio
import functools
import types
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

PLAIN = (str, bytes, int, float, type(None), type, types.ModuleType)
OURS = ("elfmesh", "tests")


def entries(root: object) -> Counter[str]:
    """Entries by "Class.attribute" of the containers, and objects by "Class()".

    Cost: each object that can be reached by attributes, entries, closures and bound methods, once.
    """
    found: Counter[str] = Counter()
    seen: dict[int, object] = {}  # the objects as well: an id is another's when its object is gone
    todo: list[tuple[Any, str]] = [(root, "root")]
    while todo:
        each, path = todo.pop()
        if isinstance(each, PLAIN) or id(each) in seen:
            continue
        seen[id(each)] = each
        if isinstance(each, dict | list | set | frozenset | deque | bytearray):
            found[path] += len(each)
        elif type(each).__module__.startswith(OURS):
            found[f"{type(each).__qualname__}()"] += 1
        todo += _within(each, path)
    return found


def _within(each: Any, path: str) -> Iterator[tuple[Any, str]]:
    if isinstance(each, dict):
        for key, value in each.items():
            yield key, f"{path}{{}}"
            yield value, f"{path}{{}}"
    elif isinstance(each, list | tuple | set | frozenset | deque):
        yield from ((value, f"{path}[]") for value in each)
    elif isinstance(each, types.FunctionType):
        for cell in each.__closure__ or ():
            yield _content(cell), f"{each.__qualname__}()"
    elif isinstance(each, types.MethodType):
        yield each.__self__, path
    elif isinstance(each, functools.partial):
        yield from ((value, path) for value in (each.func, each.args, each.keywords))
    elif type(each).__module__.startswith(OURS) or isinstance(each, asyncio.Future):
        for name in _attributes(each):
            yield getattr(each, name, None), f"{type(each).__qualname__}.{name}"


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _attributes(each: Any) -> list[str]:
    names = dict.fromkeys(getattr(each, "__dict__", {}))
    for cls in type(each).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        names |= dict.fromkeys((slots,) if isinstance(slots, str) else slots)
    return list(names)


def grown(before: Counter[str], after: Counter[str]) -> dict[str, tuple[int, int]]:
    """What has more entries than before."""
    return {name: (before[name], count) for name, count in sorted(after.items()) if count > before[name]}
