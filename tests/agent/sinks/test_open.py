"""Sinks of plug-ins are made from their configuration, or refused with one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from elfmesh.agent.sinks.config import PluginSink, check_sink
from elfmesh.agent.sinks.open import open_sink
from elfmesh.errors import ConfigError
from elfmesh.storage.storage import DiskStorage
from tests.plugins.packages import Install, install

__all__ = ["install"]

TEXT = """
class Kept:
    api_version = 1
    def __init__(self, name, options):
        if "path" not in options:
            raise ValueError("path is missing")
        self.made = name, options

class Later(Kept):
    api_version = 2
"""
SINK = PluginSink(jobs=("*",), plugin="kept", options={"path": "/x"})


def test_a_plugin_gets_its_name_and_options(install: Install, tmp_path: Path) -> None:
    install("sinkp", TEXT, sinks={"kept": "sinkp:Kept"})
    check_sink("copies", SINK, "agent.toml")
    storage = DiskStorage(tmp_path / "data")
    found = open_sink("copies", SINK, storage)
    assert vars(found) == {"made": ("copies", {"path": "/x"})}
    bare = PluginSink(jobs=("*",), plugin="kept")
    line = "the sink kept of sinkp 1.0 refuses its options: path is missing"
    with pytest.raises(ConfigError, match=line):
        open_sink("copies", bare, storage)


def test_a_sink_that_cannot_be_used_is_refused_with_its_reason(install: Install) -> None:
    install("sinkp", TEXT, sinks={"kept": "sinkp:Later"})
    with pytest.raises(ConfigError, match="no sink 'kept' is installed") as caught:
        check_sink("copies", SINK, "agent.toml")
    assert "it is for api_version 2" in caught.value.hint
    assert caught.value.where == "agent.toml: sinks.copies.plugin"
