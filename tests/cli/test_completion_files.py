"""`elf completion install`: the file of each shell, and files that it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from elfmesh.cli.completion_files import SHELLS, hint_of, install, script_path, shell_of
from elfmesh.cli.entry import run
from elfmesh.errors import RuntimeFailure, UsageError

FILES = {
    "bash": ".local/share/bash-completion/completions/elf",
    "zsh": ".local/share/zsh/site-functions/_elf",
    "fish": ".config/fish/completions/elf.fish",
}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_where_the_shell_looks_for_it(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "BASH_COMPLETION_USER_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    for _ in range(2):  # it replaces its own file
        assert run(["completion", "install"]) == 0
    found = capsys.readouterr()
    path = tmp_path / FILES[shell]
    assert "_ELF_COMPLETE" in path.read_text()
    assert found.out == ""
    assert str(path) in found.err
    assert hint_of(shell, path) in found.err


def test_directories_of_the_environment_come_first() -> None:
    home, given = Path("/home/a"), {"XDG_DATA_HOME": "/d", "XDG_CONFIG_HOME": "/c"}
    assert script_path("bash", given, home) == Path("/d/bash-completion/completions/elf")
    assert script_path("bash", {**given, "BASH_COMPLETION_USER_DIR": "/b"}, home) == Path(
        "/b/completions/elf"
    )
    assert script_path("zsh", given, home) == Path("/d/zsh/site-functions/_elf")
    assert script_path("fish", given, home) == Path("/c/fish/completions/elf.fish")


def test_a_shell_without_a_script_is_named() -> None:
    for shell in ("", "/bin/tcsh"):
        with pytest.raises(UsageError, match="for which there is no completion script"):
            shell_of({"SHELL": shell})


def test_a_file_of_others_and_one_that_cannot_be_written_stay(tmp_path: Path) -> None:
    (tmp_path / "elf").write_text("complete elf\n")
    with pytest.raises(RuntimeFailure, match="elf did not write it"):
        install(tmp_path / "elf", "_ELF_COMPLETE")
    assert (tmp_path / "elf").read_text() == "complete elf\n"
    with pytest.raises(RuntimeFailure, match="cannot write"):
        install(tmp_path / "elf" / "elf", "_ELF_COMPLETE")
