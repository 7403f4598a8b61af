"""The page of a report: numbers, bars, and long values."""

from __future__ import annotations

import json
from pathlib import Path

from elfmesh.cli.local.report_html import CHARACTERS_MAX, page
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.local.log_report import report


def test_rows_have_bars_and_long_values_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "a"
    rows = [{"k": "x" * 3000, "n": 1234567}] * 3 + [{"k": "y", "n": 0}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = page(list(report([str(path)], StreamFormat("json", host="h"))))
    assert f"<td>{'x' * CHARACTERS_MAX}…</td>" in text
    assert '<td class="number">1,234,567</td>' in text
    assert '<meter min="0" max="3" value="1"></meter>' in text
    assert "<td>75.0%</td>" in text


def test_a_report_on_nothing_is_a_page() -> None:
    assert page([]).startswith("<!doctype html>")
