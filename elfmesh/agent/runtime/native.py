"""What to tell people once at the start about C modules that this installation lacks."""

from __future__ import annotations

from elfmesh.cbt import kernel
from elfmesh.ingest.parsers import scanner


def fallback_reasons() -> list[str]:
    """A sentence for each part that runs slower than it could; none where all was built."""
    return [reason for reason in (kernel.fallback_reason, scanner.fallback_reason) if reason]
