"""Reads the sinks of an agent's configuration for a coordination analysis.

The reader needs of each sink its type, its jobs and whether records may be repeated. `elf validate` checks
the rest of the file, which may need extras that are not installed here.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from elfmesh.control.jobs.graph import JobSink
from elfmesh.errors import ConfigError

SUFFIX = ".toml"
KEYED = ("parquet", "postgres", "kafka", "alertmanager")
"""Types that store what they receive under a key, so that a repeated message changes nothing."""


def read_sinks(text: str, file: str) -> list[JobSink]:
    """Return the sinks of agent.toml.

    Raises:
        ConfigError: the text is not TOML, or a sink lacks its type or its jobs.
    """
    try:
        found = tomllib.loads(text).get("sinks", {})
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"is not TOML: {error}", where=file) from None
    except RecursionError:
        raise ConfigError("is nested too deeply", where=file) from None
    if not isinstance(found, dict):
        raise ConfigError("sinks is a table", where=f"{file}: sinks")
    return [_sink(name, each, text, file) for name, each in found.items()]


def _sink(name: str, given: Any, text: str, file: str) -> JobSink:
    where = f"{file}: sinks.{name}"
    jobs = given.get("jobs") if isinstance(given, dict) else None
    kind = given.get("type") if isinstance(given, dict) else None
    if not isinstance(kind, str) or not isinstance(jobs, list) or not all(isinstance(x, str) for x in jobs):
        raise ConfigError("a sink needs `type` and `jobs`", where=where, hint="`elf validate` checks a file.")
    declared = re.search(rf"^\s*\[\s*sinks\s*\.\s*[\"']?{re.escape(name)}[\"']?\s*\]", text, re.M)
    line = text.count("\n", 0, declared.end()) + 1 if declared else 0
    idempotent = kind in KEYED or given.get("idempotent") is True
    return JobSink(name, kind, tuple(jobs), given.get("state") == "all", idempotent, file, line)
