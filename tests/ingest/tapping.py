"""Lines to tap, and what a tap shows of them."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from elfmesh.api.web.tap import TapRequest
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.stream_formats import format_of
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.ingest.tap import Taps

ALL = "SELECT _raw FROM log"


def line(number: int, **more: Any) -> str:
    return json.dumps({"ts": "2015-05-17T10:00:00Z", "n": number, **more}) + "\n"


def append(path: Path, text: str) -> None:
    with path.open("a") as log:
        log.write(text)


def new_format(name: str, config: StreamConfig) -> StreamFormat:
    return format_of(config, name=name)


def ask(*texts: str, **options: Any) -> TapRequest:
    return TapRequest(texts=texts or (ALL,), **{"beginning": True, **options})


async def shown(taps: Taps, request: TapRequest) -> tuple[list[int], dict[str, Any]]:
    """The numbers in the lines, and the last counts."""
    numbers: list[int] = []
    counts: dict[str, Any] = {}
    async with contextlib.aclosing(taps.lines(request)) as lines:
        async for each in lines:
            if "line" in each:
                numbers.append(json.loads(each["line"])["n"])
            counts = each if "read" in each else counts
    return numbers, counts
