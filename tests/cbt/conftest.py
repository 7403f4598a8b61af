"""The kernels under which the tests of the buffer tree run."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.cbt import kernel
from elfmesh.cbt.kernel import numpy_twin


def kernels() -> list[Any]:
    """All kernels there are: the twin, and the native one where it was built."""
    return [numpy_twin] if kernel.active is numpy_twin else [kernel.active, numpy_twin]


@pytest.fixture(params=kernels(), ids=lambda module: module.__name__.split(".")[-1])
def each_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(kernel, "active", request.param)
    return request.param
