"""elfmesh: SQL over the logs of a whole fleet, computed where the logs are written.

Example:
    >>> import elfmesh
    >>> elfmesh.__version__.count(".")
    2
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elfmesh.version import VERSION

if TYPE_CHECKING:
    from elfmesh.api import coordination as coordination
    from elfmesh.api.client.asyncio import AsyncClient as AsyncClient
    from elfmesh.api.client.client import connect as connect
    from elfmesh.api.client.job import Job as Job
    from elfmesh.control.jobs.program_paths import path as path
    from elfmesh.local.embedded import run as run

__version__ = VERSION
__all__ = ["AsyncClient", "Job", "__version__", "connect", "coordination", "path", "run"]

_LAZY = {
    "run": "elfmesh.local.embedded",
    "connect": "elfmesh.api.client.client",
    "AsyncClient": "elfmesh.api.client.asyncio",
    "Job": "elfmesh.api.client.job",
    "coordination": "elfmesh.api.coordination",
    "path": "elfmesh.control.jobs.program_paths",
}


def __getattr__(name: str) -> Any:
    """Import what the package is used by when it is first used, so that `import elfmesh` costs nothing."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = importlib.import_module(_LAZY[name])
    return module if module.__name__.endswith(f".{name}") else getattr(module, name)
