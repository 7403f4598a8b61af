"""A loop in Python: `json.loads` of each line and a Counter per window."""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from datetime import datetime


def main(_work: str, path: str) -> None:
    windows: dict[int, Counter[str]] = defaultdict(Counter)
    with open(path, "rb") as file:  # noqa: PTH123 - as one would write it
        for line in file:
            click = json.loads(line)
            window = int(datetime.fromisoformat(click["ts"]).timestamp()) // 10 * 10
            windows[window][click["product"]] += click["clicks_count"]
    for window, counter in windows.items():
        for product, clicks in sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:10]:
            print(json.dumps([window, product, clicks]))


if __name__ == "__main__":
    main(*sys.argv[1:3])
