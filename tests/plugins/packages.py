"""Packages with entry points, made where a test needs them: directories that are importable and announced."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from elfmesh import plugins

Install = Callable[..., None]


def installed(
    directory: Path, package: str, text: str, version: str = "1.0", **groups: dict[str, str]
) -> None:
    """Write a package as an installer leaves it; `groups` are "formats", "functions" and "sinks"."""
    (directory / f"{package}.py").write_text(text)
    about = directory / f"{package}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    lines = []
    for group, entries in groups.items():
        lines += [f"[elfmesh.{group}]", *(f"{name} = {place}" for name, place in entries.items())]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs packages in this process; the plug-ins are those of the packages of this test."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(plugins, "_FOUND", {})
    monkeypatch.setattr(plugins, "_ENTRIES", {})

    def one(package: str, text: str, version: str = "1.0", **groups: dict[str, str]) -> None:
        installed(tmp_path, package, text, version, **groups)
        importlib.invalidate_caches()
        monkeypatch.delitem(sys.modules, package, raising=False)

    return one
