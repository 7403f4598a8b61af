"""Safeguards of the product, each removable for a test."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def without(name: str | None) -> Iterator[None]:
    """Run without a safeguard; with all of them if `name` is None."""
    yield
