"""Every example of the page on log formats runs as it stands there, and the page names every format."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from elfmesh.ingest.parsers import NAMES, StreamFormat
from elfmesh.ingest.stream_formats import format_of
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.local.embedded import LogRun
from elfmesh.ql import parse

PAGE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
EXAMPLE = re.compile(
    r"^format = (?P<quote>[\"'])(?P<format>[^\n]*?)(?P=quote)(?:, multiline = \"(?P<multiline>\w+)\")?\n"
    r"```text\n(?P<text>.*?)```\n```sql\n(?P<query>.*?)```\n```json\n(?P<rows>.*?)```",
    re.M | re.S,
)
EXAMPLES = list(EXAMPLE.finditer(PAGE))


def shown(value: Any) -> Any:
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda match: match["format"][:20])
def test_an_example_of_the_page(example: re.Match[str], tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(example["text"])
    config = StreamConfig(path=str(log), format=example["format"], multiline=example["multiline"] or "")
    run = LogRun(parse(example["query"]), [str(log)], format=format_of(config))
    rows = [row for table in run.tables() for row in table.to_pylist()]
    found = [{name: shown(value) for name, value in row.items()} for row in rows]
    assert found == [json.loads(line) for line in example["rows"].splitlines()]
    assert run.stats.parse_errors == 0


def test_all_examples_are_found() -> None:
    assert len(EXAMPLES) == PAGE.count("```text\n") >= 9


@pytest.mark.parametrize("name", NAMES)
def test_the_page_names_every_format_with_its_columns(name: str) -> None:
    rows = [line for line in PAGE.splitlines() if re.match(rf"\|.*`{name}[`:]", line)]
    assert name == "auto" or rows
    if name not in ("auto", "grok", "regex", "nginx", "apache", "nginx_ingress", "nginx_timed"):
        schema = StreamFormat(name).static_schema
        for column in [] if schema is None else schema.names:
            derived = column.startswith("_") or not name.islower() or "vhost" in name or "_main" in name
            assert derived or name in ("common", "combined_timed", "raw") or column in rows[0], (name, column)
