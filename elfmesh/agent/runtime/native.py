"""Reports C modules that are missing in this installation."""

from __future__ import annotations

from elfmesh.cbt import kernel
from elfmesh.ingest.parsers import scanner


def fallback_reasons() -> list[str]:
    """Return a sentence for each part that runs slower because its C module is missing."""
    return [reason for reason in (kernel.fallback_reason, scanner.fallback_reason) if reason]
