"""The archive of `elf doctor --bundle`: what a maintainer needs to help, without secrets and log lines.

Two rules keep secrets out. A setting whose name or section can contain one is masked whole. In all other
texts, the words that look like a credential are masked as in the log of an agent (`log_lines.masked`), and of
an address only the scheme and the host remain. Rows of results, texts of jobs and samples of lines are left
out, because they contain values of the logs.
"""

from __future__ import annotations

import io
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from elfmesh.agent.runtime.log_lines import MASK, masked
from elfmesh.errors import RuntimeFailure
from elfmesh.ql.values.row_json import encode_json
from elfmesh.storage.whole import whole_file
from elfmesh.version import VERSION

UNIT = "elf-agent"
LOG_LINES = 2000
LOG_BYTES_MAX = 2_000_000

_SECRET = re.compile(r"(?i)pass|secret|token|auth|key|credential|cookie|conninfo|dsn")
_OPEN_TABLES = ("options", "headers", "env")
"""Tables with free names, whose values are masked."""

_LEFT_OUT = ("samples", "rows", "text", "reported", "dead_letters")
_ADDRESS = re.compile(r"(?i)([a-z][a-z0-9+.-]*://)([^\s/?#]*)(\S*)")


def configuration_of(path: Path) -> Any:
    """Return the settings of an agent.toml without secrets. A file that is not TOML is left out."""
    try:
        return redacted(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return {"unreadable": type(error).__name__}


def redacted(value: Any, *, hide: bool = False) -> Any:
    """Return a value of JSON or TOML without secrets."""
    if isinstance(value, Mapping):
        return {
            str(key): redacted(each, hide=hide or key in _OPEN_TABLES or bool(_SECRET.search(str(key))))
            for key, each in value.items()
            if key not in _LEFT_OUT
        }
    if isinstance(value, list | tuple):
        return [redacted(each, hide=hide) for each in value]
    if isinstance(value, bool | int | float | None):
        return MASK if hide and value is not None and not isinstance(value, bool) else value
    return MASK if hide else _plain(str(value))


def agent_log(path: Path | None) -> str:
    """Return the newest lines of the log of the agent: of a file, or of the journal.

    Raises:
        RuntimeFailure: the file cannot be read.
    """
    if path is not None:
        try:
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - LOG_BYTES_MAX))
                text = file.read(LOG_BYTES_MAX).decode(errors="replace")
        except OSError as error:
            raise RuntimeFailure(f"{path}: {error.strerror or error}", hint="Check --log.") from None
    elif shutil.which("journalctl") is None:
        return "there is no journal; --log FILE names the log of the agent\n"
    else:
        command = [
            "journalctl",
            "--unit",
            UNIT,
            "--lines",
            str(LOG_LINES),
            "--no-pager",
            "--output",
            "short-iso",
        ]
        ran = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        text = ran.stdout if ran.returncode == 0 else ran.stderr
    lines = text.splitlines()[-LOG_LINES:]
    return "".join(f"{_plain(line)}\n" for line in lines)


def _plain(text: str) -> str:
    return _ADDRESS.sub(_host_only, masked(text))


def _host_only(address: re.Match[str]) -> str:
    scheme, authority, rest = address.groups()
    if "@" in rest and "@" not in authority:  # a password with a slash may stand where the host should
        return scheme + MASK
    return scheme + authority.rpartition("@")[2]


def versions() -> dict[str, str]:
    found = {"elfmesh": VERSION, "python": sys.version.split()[0], "system": platform.platform()}
    packages = (metadata.requires("elfmesh") or []) if _is_installed() else []
    for requirement in packages:
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _is_installed() -> bool:
    try:
        metadata.distribution("elfmesh")
    except metadata.PackageNotFoundError:
        return False
    return True


def write_bundle(target: Path, parts: Mapping[str, Any]) -> Sequence[tuple[str, int]]:
    """Write the archive. Returns the names and sizes of its files.

    Args:
        target: a file with the ending .tar.gz, which appears when it is whole.
        parts: name of a file -> its text, or its value for JSON.

    Raises:
        OSError: the file cannot be written.
    """
    listed = []
    with whole_file(target) as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, value in parts.items():
            data = value.encode() if isinstance(value, str) else encode_json(value) + b"\n"
            head = tarfile.TarInfo(f"elf-bundle/{name}")
            head.size, head.mode = len(data), 0o600
            archive.addfile(head, io.BytesIO(data))
            listed.append((name, len(data)))
    return listed
