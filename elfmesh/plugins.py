"""Plug-ins: formats, functions and sinks that other packages add by entry points.

Owns the entry-point groups, the version of the protocols, and the reasons why a plug-in is refused. It knows
neither formats nor functions nor sinks: `ql.expressions.plugin_functions`, `ingest.parsers.plugin_formats`
and `agent.sinks.open` use what it finds.

Invariant: a plug-in that cannot be used never stops the process. It is in `refused()` with its reason, and
its name is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

API_VERSION = 1
"""The version of the protocols below. A plug-in that states another one is refused."""

FORMATS, FUNCTIONS, SINKS = "elfmesh.formats", "elfmesh.functions", "elfmesh.sinks"
KINDS = {FORMATS: "format", FUNCTIONS: "function", SINKS: "sink"}


class FormatPlugin(Protocol):
    """A log format. The class is called with the text behind "NAME:" in the format, "" without one.

    Attributes:
        api_version: 1.
        columns: names of the columns with their types: "string", "int", "float" or "bool".
        argument: whether the name may ("?"), must ("!") or must not ("") have an argument.
    """

    api_version: int
    columns: Mapping[str, str]
    argument: str

    def __init__(self, argument: str) -> None: ...

    def parse(self, line: str) -> Mapping[str, str | None] | None:
        """Return the values of one line as text; None if the line is not of this format.

        A line for which the method raises an error is a bad line. Called for each line, from several threads.
        """
        ...


class FunctionPlugin(Protocol):
    """A function of ELF-QL. The class is called without arguments, once in a process.

    Attributes:
        api_version: 1.
        takes: types of the arguments: "STRING", "BIGINT", "DOUBLE", "BOOLEAN", "BINARY", "DATE", "TIMESTAMP".
        gives: type of the result.
        label: "CR" if the result depends on nothing but the arguments, "OR" otherwise (`elf blazes`).
    """

    api_version: int
    takes: Sequence[str]
    gives: str
    label: str

    def __call__(self, *arrays: Any) -> Any:
        """Return a pyarrow array with one value per row. The arguments are arrays of equal length."""
        ...


class Plugin(Struct, frozen=True):
    """A usable plug-in: `made` is the class of the entry point, from version `version` of `package`."""

    group: str
    name: str
    package: str
    version: str
    made: Any

    def __str__(self) -> str:
        return f"{KINDS[self.group]} {self.name} of {self.package} {self.version}"


class RefusedPlugin(Struct, frozen=True):
    """A plug-in that cannot be used, and the reason."""

    group: str
    name: str
    package: str
    version: str
    reason: str

    def __str__(self) -> str:
        of = f"the plug-in {self.name} ({KINDS[self.group]}) of {self.package} {self.version}"
        return f"{of} is not used: {self.reason}"


_FOUND: dict[str, tuple[dict[str, Plugin], list[RefusedPlugin]]] = {}
"""What `plugins` has found, by group."""

_ENTRIES: dict[str, list[EntryPoint]] = {}
"""The entry points of all groups, which one pass over the installed packages finds."""


def _found(group: str) -> tuple[dict[str, Plugin], list[RefusedPlugin]]:
    if group not in _FOUND:
        _FOUND[group] = _find(group)
    return _FOUND[group]


def _find(group: str) -> tuple[dict[str, Plugin], list[RefusedPlugin]]:
    usable: dict[str, Plugin] = {}
    refused: list[RefusedPlugin] = []
    for entry in sorted(_entries(group), key=lambda each: (each.name, each.value)):
        about = (group, entry.name, *_origin(entry))
        reason, made = _loaded(entry)
        if not reason and entry.name in usable:
            reason = f"{usable[entry.name].package} has a {KINDS[group]} of this name"
        if reason:
            refused.append(RefusedPlugin(*about, reason))
        else:
            usable[entry.name] = Plugin(*about, made)
    return usable, refused


def _entries(group: str) -> list[EntryPoint]:
    if not _ENTRIES:
        from importlib.metadata import entry_points

        entries = entry_points()
        _ENTRIES.update({each: list(entries.select(group=each)) for each in KINDS})
    return _ENTRIES[group]


def plugins(group: str) -> Mapping[str, Plugin]:
    """Return the usable plug-ins of a group by name. Cost: the first call imports them."""
    return _found(group)[0]


def refuse(plugin: Plugin, reason: str) -> None:
    """Make a plug-in unusable, because a check of its kind found a reason."""
    usable, refused = _found(plugin.group)
    if usable.pop(plugin.name, None) is not None:
        about = (plugin.group, plugin.name, plugin.package, plugin.version)
        refused.append(RefusedPlugin(*about, reason))


def refused() -> list[RefusedPlugin]:
    """Return the plug-ins that are installed and not used."""
    return [each for group in KINDS for each in _found(group)[1]]


def announced() -> dict[str, str]:
    """Return packages and versions of the usable plug-ins by "kind/name", as an agent announces them.

    Imports nothing: plug-ins of a group are announced once `plugins` was called for it.
    """
    return {
        f"{KINDS[group]}/{name}": f"{each.package} {each.version}"
        for group, (usable, _) in list(_FOUND.items())
        for name, each in list(usable.items())
    }


def announced_refusals() -> list[dict[str, str]]:
    """Return the plug-ins that are not used, and why, as an agent announces them. Imports nothing."""
    return [
        {
            "kind": KINDS[group],
            "plugin": each.name,
            "package": each.package,
            "version": each.version,
            "reason": each.reason,
        }
        for group, (_, refused) in list(_FOUND.items())
        for each in list(refused)
    ]


def _loaded(entry: EntryPoint) -> tuple[str, Any]:
    try:
        made = entry.load()
    except Exception as error:
        return f"it cannot be imported: {type(error).__name__}: {error}", None
    version = getattr(made, "api_version", None)
    if version != API_VERSION:
        stated = "states no api_version" if version is None else f"is for api_version {version}"
        return f"it {stated}, and this release has {API_VERSION}", None
    return "", made


def _origin(entry: EntryPoint) -> tuple[str, str]:
    dist = entry.dist
    return ("?", "?") if dist is None else (dist.name, dist.version)
