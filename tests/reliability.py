"""Sections of docs/reliability.md that programs write: each stands between marks with its name."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"


def with_section(text: str, name: str, body: str) -> str:
    """A page with this section brought up to date, or added at its end."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    section = f"{begin}\n{body.strip()}\n{end}"
    if begin not in text:
        return f"{text.rstrip()}\n\n{section}\n"
    before, _, rest = text.partition(begin)
    return before + section + rest.partition(end)[2]


def write_section(name: str, body: str) -> None:
    """Bring a section of the page up to date."""
    text = PAGE.read_text() if PAGE.exists() else "# Reliability\n"
    PAGE.write_text(with_section(text, name, body))
