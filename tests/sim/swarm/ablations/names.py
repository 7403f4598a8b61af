"""What stands where the product declares a safeguard (`elfmesh.safeguards`), and what a test puts there.

Owns the way from a name to the code: every module that declares a safeguard is loaded, and a function is
replaced wherever it was imported to. Knows no safeguard.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, reduce
from importlib import import_module
from pathlib import Path
from typing import Any

import elfmesh
from elfmesh.safeguards import PLACES

Patch = tuple[Any, str, Any]


@cache
def declared() -> dict[str, tuple[str, str]]:
    """All declared safeguards: module and qualified name of each."""
    root = Path(elfmesh.__file__).parent
    for path in sorted(root.rglob("*.py")):
        if "\nfrom elfmesh.safeguards import" in path.read_text():
            import_module(".".join(path.relative_to(root.parent).with_suffix("").parts))
    return PLACES


def safeguards() -> set[str]:
    """The declared safeguards, those of several places once."""
    return {name.partition(":")[0] for name in declared()}


def _place(name: str) -> tuple[Any, str]:
    module, qualified = declared()[name]
    *owners, attribute = qualified.split(".")
    return reduce(getattr, owners, sys.modules[module]), attribute


def original(name: str) -> Any:
    """What stands there: a function, a class or a property."""
    return getattr(*_place(name))


def instead(name: str, value: Any) -> list[Patch]:
    """Patches that put `value` there, and where the function was imported to."""
    owner, attribute = _place(name)
    found = getattr(owner, attribute)
    if isinstance(owner, type):
        return [(owner, attribute, value)]
    importers = [module for at, module in sorted(sys.modules.items()) if at.partition(".")[0] == "elfmesh"]
    return [
        (module, own, value)
        for module in importers
        for own, held in list(vars(module).items())
        if held is found
    ]


def always(*replaced: tuple[str, Any]) -> Callable[[], list[Patch]]:
    """A safeguard whose places, by name, always have these values instead."""
    return lambda: [patch for name, value in replaced for patch in instead(name, value)]


def with_options(name: str, **changed: Any) -> list[Patch]:
    """A class, or its constructor, that always gets these arguments."""
    found: Any = original(name)
    if not (isinstance(found, type) and "__init__" in vars(found)):  # a function, or a struct
        return instead(name, lambda *args, **options: found(*args, **{**options, **changed}))
    init = vars(found)["__init__"]

    def changed_init(self: Any, *args: Any, **options: Any) -> None:
        init(self, *args, **{**options, **changed})

    return [(found, "__init__", changed_init)]
