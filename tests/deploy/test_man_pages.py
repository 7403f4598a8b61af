"""The manual pages: one per command, and roff that formats without a warning."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from elfmesh.cli.command_list import COMMANDS
from elfmesh.cli.reference import CommandHelp, OptionHelp

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def man() -> ModuleType:
    spec = importlib.util.spec_from_file_location("man_pages", ROOT / "deploy/release/man_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(man: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("man") / "man1"
    directory.mkdir()
    (directory / "elf-gone.1").touch()
    man.main(directory)
    return directory


def test_each_command_has_a_page_and_old_pages_go(pages: Path) -> None:
    names = {path.name for path in pages.iterdir()}
    assert names >= {"elf.1", *(f"elf-{name}.1" for name in COMMANDS), "elf-ca-issue.1"}
    assert "elf-gone.1" not in names
    top = (pages / "elf.1").read_text()
    assert all(f"\\fBelf {name}\\fR".replace("-", "\\-") in top for name in COMMANDS)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not here")
def test_pages_are_formatted_without_a_warning(pages: Path) -> None:
    command = ["groff", "-man", "-Tutf8", "-Kutf8", "-ww", *sorted(map(str, pages.iterdir()))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Run a query over log files in one process" in done.stdout


def test_a_text_is_no_instruction(man: ModuleType) -> None:
    command = CommandHelp(
        ("elf", "x"),
        "Do it.",
        "elf x [OPTIONS]",
        (".so /etc/passwd", "'br \\n[.F] --a"),
        (OptionHelp("--a", ".b", ("ELF_A",)),),
        (),
    )
    lines = man.page(command).splitlines()
    assert "\\&.so /etc/passwd" in lines
    assert "\\&'br \\en[.F] \\-\\-a" in lines
    assert "\\&.b Variables: ELF_A." in lines
    instructions = {line.split()[0] for line in lines if line.startswith((".", "'"))}
    assert instructions == {".TH", ".SH", ".PP", ".TP", ".BR"}
