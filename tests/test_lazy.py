"""Modules that are loaded by their first use, and modules that are hidden."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from elfmesh import lazy


def test_a_lazy_module_is_loaded_by_its_first_use() -> None:
    module = lazy.lazy_module("elfmesh.units")
    from elfmesh.units import parse_size

    assert module.parse_size is parse_size
    assert vars(module)["parse_size"] is parse_size
    with pytest.raises(AttributeError):
        _ = module.nothing
    get = lazy.lazy_names("elfmesh", {"units": "parse_size parse_duration"})
    assert get("parse_size") is parse_size
    assert lazy.lazy_names("elfmesh", {"api.coordination": "coordination"})("coordination").__name__ == (
        "elfmesh.api.coordination"
    )
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        get("other")


HIDING = """
from elfmesh.lazy import hide
hide("wave")
import sys, array
try:
    import wave
except ModuleNotFoundError as error:
    print(error.name, "wave" in sys.modules)
"""


def test_a_hidden_library_is_not_installed_for_this_process() -> None:
    done = subprocess.run([sys.executable, "-c", HIDING], capture_output=True, text=True, check=True)
    assert done.stdout == "wave False\n"


def test_the_garbage_collector_waits_while_modules_are_loaded() -> None:
    assert gc.isenabled()
    before = gc.get_freeze_count()
    try:
        with lazy.loading():
            assert not gc.isenabled()
            with lazy.loading():
                assert not gc.isenabled()
            assert not gc.isenabled(), "the outer one still loads"
        assert gc.isenabled()
        assert gc.get_freeze_count() > before
        with pytest.raises(ImportError), lazy.loading():
            raise ImportError
        assert gc.isenabled()
    finally:
        gc.unfreeze()
