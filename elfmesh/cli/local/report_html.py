"""The report as one HTML page: no script, no address, and every text of a log escaped.

The page forbids itself scripts and all requests by its content security policy, so that a text which would
escape the escaping still runs nothing.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from elfmesh.cli.local.report_tables import head_of, tables_of
from elfmesh.local.row_formats import value_text
from elfmesh.text import printable
from elfmesh.version import VERSION

if TYPE_CHECKING:
    from elfmesh.local.log_report import LogSummary

CHARACTERS_MAX = 500
"""Characters of a value; a request can be as long as a block."""

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Log report</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: 0 0 1.5rem; width: 100%; }
caption { font-weight: 600; text-align: left; padding: .5rem 0; }
th, td { border-bottom: 1px solid #8884; padding: .2rem .6rem; text-align: left; vertical-align: top; }
td { overflow-wrap: anywhere; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.bar { width: 30%; }
meter { width: 100%; }
</style>
</head>
<body>
"""


def page(reports: Sequence[LogSummary]) -> str:
    """Return the page."""
    parts = [_HEAD, "<h1>Log report</h1>\n", *map(_section, reports)]
    return "".join([*parts, f"<footer>elfmesh {html.escape(VERSION)}</footer>\n</body>\n</html>\n"])


def _section(found: LogSummary) -> str:
    head = "".join(
        f"<tr><th>{_text(name)}</th><td>{_text(text)}</td></tr>\n" for name, text in head_of(found)
    )
    tables = "".join(_table(*each) for each in tables_of(found))
    return f"<section>\n<h2>{_text(found.format)}</h2>\n<table>\n{head}</table>\n{tables}</section>\n"


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], counts: Sequence[int]) -> str:
    heads = "".join(f"<th>{_text(name)}</th>" for name in columns)
    heads += '<th class="bar"></th>' if counts else ""
    most = max(counts, default=0)
    lines = []
    for at, row in enumerate(rows):
        cells = "".join(map(_cell, row))
        if counts:
            cells += f'<td class="bar"><meter min="0" max="{most}" value="{counts[at]}"></meter></td>'
        lines.append(f"<tr>{cells}</tr>\n")
    return f"<table>\n<caption>{_text(title)}</caption>\n<tr>{heads}</tr>\n{''.join(lines)}</table>\n"


def _cell(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f'<td class="number">{value:,}</td>'
    return f"<td>{_text(value_text(value))}</td>"


def _text(text: str) -> str:
    shown = text if len(text) <= CHARACTERS_MAX else text[:CHARACTERS_MAX] + "…"
    return html.escape(printable(shown))
