"""Every test of a parser runs twice: with the native scanner, and with the path that works without it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ingest.parsers.agreement import forced


@pytest.fixture(autouse=True, params=["native", "python"])
def which_scanner(request: pytest.FixtureRequest) -> Iterator[str]:
    yield from forced(request.param)
