"""elfmesh: SQL over the logs of a whole fleet, computed where the logs are written.

`run` evaluates a query over files or tables in this process, `connect` returns a client of a fleet.

Example:
    >>> import elfmesh
    >>> elfmesh.__version__.count(".")
    2
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elfmesh.lazy import lazy_names
from elfmesh.version import VERSION

if TYPE_CHECKING:
    from elfmesh.api import coordination
    from elfmesh.api.client.asyncio import AsyncClient
    from elfmesh.api.client.client import Client, connect
    from elfmesh.api.client.job import Job
    from elfmesh.api.client.live import LiveAnswer
    from elfmesh.api.client.result_interval import ResultInterval
    from elfmesh.control.jobs.program_paths import path
    from elfmesh.errors import (
        ConfigError,
        DataError,
        ElfError,
        QueryError,
        RuntimeFailure,
        Unreachable,
        UsageError,
    )
    from elfmesh.local.python_run import RunResults, run

__version__ = VERSION
__all__ = [
    "AsyncClient", "Client", "ConfigError", "DataError", "ElfError", "Job", "LiveAnswer", "QueryError",
    "ResultInterval", "RunResults", "RuntimeFailure", "Unreachable", "UsageError", "__version__", "connect",
    "coordination", "path", "run"]  # fmt: skip

_MODULES = {
    "local.python_run": "run RunResults",
    "api.coordination": "coordination",
    "api.client.client": "connect Client",
    "api.client.asyncio": "AsyncClient",
    "api.client.live": "LiveAnswer",
    "api.client.result_interval": "ResultInterval",
    "api.client.job": "Job",
    "control.jobs.program_paths": "path",
    "local.notebook": "load_ipython_extension",  # which `%load_ext elfmesh` calls
    "errors": "ConfigError DataError ElfError QueryError RuntimeFailure Unreachable UsageError",
}
__getattr__ = lazy_names(__name__, _MODULES)  # so that `import elfmesh` costs nothing


def __dir__() -> list[str]:
    """List the API for Tab and `help`, also the names that are not loaded yet."""
    return sorted({*globals(), *__all__})
