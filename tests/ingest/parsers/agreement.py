"""Parse the same blocks with the native scanner and without, and compare everything that can be seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers import Parsed, Parser, scanner


@contextmanager
def using(which: str) -> Iterator[None]:
    before = scanner.active
    scanner.choose(which)
    try:
        yield
    finally:
        scanner.active = before


def forced(which: str) -> Iterator[str]:
    """The body of a fixture: this scanner for one test, which is skipped where it was not built."""
    before = scanner.active, scanner.fallback_reason
    try:
        scanner.choose(which)
    except ConfigError as error:
        scanner.active, scanner.fallback_reason = before
        pytest.skip(error.message)
    yield which
    scanner.active, scanner.fallback_reason = before


def compare(make: Callable[[], Parser], blocks: Sequence[bytes], columns: Sequence[str]) -> list[Parsed]:
    """The parses by the scanner, after checking that the slow path says the same of every block."""
    fast_parser, slow_parser = make(), make()
    found: list[Parsed] = []
    for block in blocks:
        with using("native"):
            fast = fast_parser.parse(block, columns)
            fast_batch = fast.batch
        with using("python"):
            slow = slow_parser.parse(block, columns)
            slow_batch = slow.batch
        fast_batch.validate(full=True)
        assert fast_batch.schema == slow_batch.schema
        for name in fast_batch.schema.names:
            left, right = fast_batch.column(name), slow_batch.column(name)
            assert left.equals(right), (name, left.to_pylist(), right.to_pylist())
        for what in ("rows", "lines", "errors", "samples", "field_errors", "replaced"):
            assert getattr(fast, what) == getattr(slow, what), what
        found.append(fast)
    return found
