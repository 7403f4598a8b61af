"""Which kernel is taken, and what is said about it."""

from __future__ import annotations

import sys

import pytest

from elfmesh.cbt import kernel
from elfmesh.cbt.kernel import numpy_twin
from elfmesh.errors import ConfigError


def test_numpy_can_be_asked_for_and_needs_no_excuse() -> None:
    assert kernel.choose("numpy") == (numpy_twin, "")


@pytest.mark.parametrize("wish", ["fast", "NUMPY", "native "])
def test_an_unknown_kernel_is_refused(wish: str) -> None:
    with pytest.raises(ConfigError, match=r"ELF_KERNEL: there is no kernel"):
        kernel.choose(wish)


@pytest.mark.parametrize("wish", [None, ""])
def test_numpy_takes_the_place_of_a_native_kernel_that_was_not_built_and_reports_why(
    wish: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "elfmesh.cbt.kernel.native", None)
    chosen, reason = kernel.choose(wish)
    assert chosen is numpy_twin
    assert reason.startswith("the native kernel cannot be loaded")
    with pytest.raises(ConfigError, match=r"native kernel cannot be loaded.*\n.*Install a wheel"):
        kernel.choose("native")


def test_native_is_taken_where_it_was_built() -> None:
    native = pytest.importorskip("elfmesh.cbt.kernel.native", exc_type=ImportError)
    assert kernel.choose(None) == (native, "")
    assert kernel.choose("native") == (native, "")


def test_both_offer_the_whole_contract() -> None:
    native = pytest.importorskip("elfmesh.cbt.kernel.native", exc_type=ImportError)
    functions = {name for name in vars(kernel.Kernel) if not name.startswith("_")}
    assert functions <= set(numpy_twin.__all__) & set(dir(numpy_twin))
    assert functions <= set(dir(native))
