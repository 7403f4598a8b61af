"""Modules that are loaded when something of them is first used, not when they are imported.

Commands that only ask need no Arrow, no numpy and no SQL, and an agent is ready before it loads SQL. Two
ways, both behind `if TYPE_CHECKING` so that the type checker sees plain imports:

    if TYPE_CHECKING:
        import pyarrow as pa
    else:
        pa = lazy_module("pyarrow")

and, in the `__init__` of a package, `__getattr__ = lazy_names(__name__, {"panes": "Panes TableSpec"})`.

Cost: after the first use of a name, one look into a dict; before it, the import. Safe in threads: the import
system's own lock orders them.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _LazyModule(ModuleType):
    """Stands for a module, and keeps each name that was asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked by tools that look at all modules: no reason to load it
            raise AttributeError(name)
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value


def lazy_module(name: str) -> ModuleType:
    """What to use in place of a module; it is imported when an attribute is first read.

    Raises:
        ImportError: from that use, if the module cannot be imported.
    """
    return _LazyModule(name)


class _LazyFunctions(ModuleType):
    """Stands for a module; what is read of it before it is loaded is a function that loads it when called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self.__name__ not in sys.modules:
            return functools.partial(_call, self.__name__, name)
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value


def _call(module: str, name: str, *args: object, **options: object) -> object:
    return getattr(importlib.import_module(module), name)(*args, **options)


def lazy_functions(name: str) -> ModuleType:
    """What to use in place of a module that tables of functions name: it is imported at the first call.

    Raises:
        ImportError: from that call, if the module cannot be imported.
        AttributeError: from that call, if the module has no such function.
    """
    return _LazyFunctions(name)


def lazy_names(package: str, where: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose names come from its modules.

    Args:
        package: its `__name__`.
        where: by module, without the package, the names that come from it, with spaces between. A name that
            is that of its module stands for the module.

    Raises:
        AttributeError: from the function that is returned, for another name.
    """
    modules = {name: module for module, names in where.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package}.{modules[name]}")
        value = module if modules[name].endswith(f".{name}") else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return get


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Suspend the garbage collector while modules are loaded, and exclude them from its later passes.

    Modules are not garbage, but the collector searches them again and again while they are loaded, which is a
    fifth of the time of a short command.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class _Hidden:
    """A finder of modules that says of some that they are not installed."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = frozenset(names)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name in self._names:
            raise ModuleNotFoundError(f"{name} is hidden in this process", name=name)
        return None


def hide(*names: str) -> None:
    """Let these libraries be not installed for the rest of this process.

    For a process that is ours alone: Arrow loads pandas, where it is there, to ask of the first list that it
    is given whether it is one of pandas' own. That is a third of a second of processor and 37 MB.
    """
    sys.meta_path.insert(0, _Hidden(names))
