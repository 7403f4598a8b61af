"""The tests here compare the native scanner with the slow path themselves, so they run once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ingest.parsers.agreement import forced


@pytest.fixture(autouse=True)
def which_scanner() -> Iterator[str]:
    """Once, not twice: these tests run both ways themselves."""
    yield from forced("native")
