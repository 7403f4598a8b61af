"""Parses a block of a stream. Over-long lines are parse errors; samples contain the positions of lines."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from elfmesh.ingest.parsers import Parsed, Parser
from elfmesh.ingest.parsers.base import SAMPLES_MAX, sample
from elfmesh.ingest.sources.bad_lines import places
from elfmesh.ingest.sources.blocks import Block


def parse_block(
    parser: Parser, block: Block, columns: Sequence[str], lines_before: int | None = None
) -> Parsed:
    """Parse a block and count its over-long lines as parse errors; samples contain the positions of lines."""
    parsed = parser.parse(block.data, columns)
    if block.overlong:
        parsed = _with_overlong(parsed, block)
    where = places(parsed.samples, block, lines_before) if parsed.samples else []
    if parser.hide is not None:
        parsed = parser.hide(parser, parsed)
    if where:
        reported = [f"{place}: {each}" for place, each in zip(where, parsed.samples, strict=True)]
        parsed = replace(parsed, samples=reported)
    return parsed


def _with_overlong(parsed: Parsed, block: Block) -> Parsed:
    text = sample("longer than the limit on one line", block.overlong_sample.decode("utf-8", "replace"))
    return replace(
        parsed,
        lines=parsed.lines + block.overlong,
        errors=parsed.errors + block.overlong,
        samples=[*parsed.samples, text][:SAMPLES_MAX],
    )
