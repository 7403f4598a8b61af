"""All rows of the rotation matrix, in the order of the published table."""

from __future__ import annotations

from tests.ingest.rotation import chains, files, inside
from tests.ingest.rotation.case import CASES, Case

__all__ = ["CASES", "Case", "chains", "files", "inside"]
