"""Where the shells of a user look for completion scripts, and `elf completion install`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from elfmesh.errors import RuntimeFailure, UsageError

SHELLS = ("bash", "zsh", "fish")
OURS = "_ELF_COMPLETE"
"""What each completion script of ours contains."""


def shell_of(environment: Mapping[str, str]) -> str:
    """Return the user's shell.

    Raises:
        UsageError: SHELL is none for which there is a script.
    """
    shell = Path(environment.get("SHELL", "")).name
    if shell not in SHELLS:
        raise UsageError(
            f"SHELL is {shell!r}, for which there is no completion script",
            hint=f"Write SHELL=bash elf completion install; there are {', '.join(SHELLS)}.",
        )
    return shell


def script_path(shell: str, environment: Mapping[str, str], home: Path) -> Path:
    """Return the file of the user from which a shell loads the completion of `elf`."""
    data = Path(environment.get("XDG_DATA_HOME") or home / ".local/share")
    if shell == "fish":
        return Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "fish/completions/elf.fish"
    if shell == "zsh":
        return data / "zsh/site-functions/_elf"
    own = environment.get("BASH_COMPLETION_USER_DIR")
    return Path(own or data / "bash-completion") / "completions/elf"


def install(path: Path, script: str) -> None:
    """Write a script; replaces one of ours.

    Raises:
        RuntimeFailure: the file cannot be written, or is not ours.
    """
    try:
        if path.exists() and OURS not in path.read_text(errors="replace"):
            raise RuntimeFailure(f"{path} exists, and elf did not write it", hint="Move it away.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script)
    except OSError as error:
        raise RuntimeFailure(
            f"cannot write {path}: {error.strerror}", hint="Check its permissions."
        ) from None


def hint_of(shell: str, path: Path) -> str:
    """Return the step after which the shell completes `elf`."""
    if shell == "zsh":
        return f"add to ~/.zshrc, before compinit: fpath=({path.parent} $fpath)"
    return "it works in a new shell" + (", with the package bash-completion" if shell == "bash" else "")
