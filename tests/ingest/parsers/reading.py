"""What the tests of formats share."""

from __future__ import annotations

from typing import Any

from elfmesh.ingest.parsers import StreamFormat


def read(spec: str, text: str | bytes, columns: list[str], **options: Any) -> list[tuple[Any, ...]]:
    data = text.encode() if isinstance(text, str) else text
    parsed = StreamFormat(spec, **options).parser("f").parse(data, columns)
    return [tuple(row.values()) for row in parsed.batch.to_pylist()]
