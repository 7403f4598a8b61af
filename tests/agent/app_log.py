"""A small log and the query that the tests of `elf run` ask of it."""

from __future__ import annotations

import json
from pathlib import Path

RECORDS = [{"ts": 60 * n, "k": "ab"[n % 2], "v": n, "w": {"x": n / 2}} for n in range(10)]
PER_WINDOW = "SELECT k, sum(v) s FROM log GROUP BY TUMBLE(ts, INTERVAL '5' MINUTE), k"


def write(directory: Path) -> Path:
    """The log, one JSON object a line."""
    path = directory / "app.log"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    return path
