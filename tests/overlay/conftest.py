"""Lets the overlay's tests import `network` (tests/sim) and `crowd` (here) by name."""

from __future__ import annotations

import sys
from pathlib import Path

for folder in (Path(__file__).parent, Path(__file__).parents[1] / "sim"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
