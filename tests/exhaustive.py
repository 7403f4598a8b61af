"""Which cases `make test` runs, and which only `make test-all`, which takes the long versions of checks.

What takes longer than a change can wait for is left to `make test-nightly`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import pytest
from hypothesis import settings

EXAMPLES_SHARE, EXAMPLES_MIN = 10, 10
"""`make test` tries so small a share of the examples that a test states, but so many; `make test-all` all."""
ATTRIBUTE = "_hypothesis_internal_use_settings"
"""Where Hypothesis keeps the settings of a test; `settings` itself may decorate a test only once."""


def nightly(test: Any) -> Any:
    """Leave a test to `make test-nightly`; `make test` and `make test-all` run a small version of it."""
    return pytest.mark.exhaustive(pytest.mark.nightly(test))


def few(values: Iterable[Any], count: int, longer: int | None = None) -> list[Any]:
    """Values of a parametrized test: the first `count` in every run, the others by `make test-all`.

    If `longer` is given, `make test-all` runs so many of the others, and `make test-nightly` the rest.
    """
    rest = iter(values)
    every = list(islice(rest, count))
    exhaustive = [pytest.param(value, marks=pytest.mark.exhaustive) for value in islice(rest, longer)]
    both = pytest.mark.exhaustive, pytest.mark.nightly
    return [*every, *exhaustive, *(pytest.param(value, marks=both) for value in rest)]


def fewer_examples(items: Iterable[pytest.Item]) -> None:
    """Cut down the examples of tests of Hypothesis."""
    for test in {getattr(item, "function", None) for item in items}:
        stated = getattr(test, ATTRIBUTE, None) or settings()
        count = min(stated.max_examples, max(EXAMPLES_MIN, stated.max_examples // EXAMPLES_SHARE))
        setattr(test, ATTRIBUTE, settings(stated, max_examples=count))
