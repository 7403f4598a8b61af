"""Real logs by the native scanner and without it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.parsers.access import COMBINED_COLUMNS, COMMON_COLUMNS
from elfmesh.ingest.parsers.json_lines import JsonParser, json_fields
from elfmesh.ingest.parsers.lines import Lines
from tests.ingest.parsers.agreement import compare
from tests.tooling.shared_data import DATA

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not beside this checkout")


def real_logs() -> list[Path]:
    rooms = ("access_logs", "json_streams", "lnav", "system_logs")
    return sorted(path for room in rooms for path in (DATA / room).glob("*") if path.is_file())


def blocks_of(path: Path, size: int = 1 << 20) -> list[bytes]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    blocks: list[bytes] = []
    while data and len(blocks) < 8:
        end = data.find(b"\n", size) + 1 or len(data)
        blocks.append(data[:end])
        data = data[end:]
    return blocks


@needs_data
@pytest.mark.parametrize("path", real_logs(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_real_logs_agree(path: Path) -> None:
    blocks = blocks_of(path)
    for spec in ("combined", "common"):
        columns = COMBINED_COLUMNS if spec == "combined" else COMMON_COLUMNS
        compare(StreamFormat(spec).parser, blocks, [*columns, "_raw"])
    names: dict[str, None] = dict.fromkeys(["ts", "a"])
    for text in Lines(blocks[0] if blocks else b"").texts()[:50]:
        names.update(dict.fromkeys(json_fields(text)))
    nested = ["actor.login", "payload.size", "userIdentity.type", "connections.accepted", "log.level"]
    compare(JsonParser, blocks, [*list(names)[:12], *nested])
    compare(JsonParser, blocks, ["ts", "actor.login", "type", "id", "eventName", "eventTime"])
