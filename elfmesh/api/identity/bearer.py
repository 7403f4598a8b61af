"""The token of an agent's local API, created at every start in a file that only the agent's user can read.

The module owns the token file (`api.token` in the data directory, mode 0600), and the notes with which
programs of the same user find it: a file named HOST:PORT in a directory of the user that contains the path of
the token file. A process that can read the token runs as the agent's user or as root, and may do what these
may do.

Invariants: a token file or note that belongs to another user, or that other users can read or write, is not
used. A token is valid only while its agent runs, so a process that later takes the port of a stopped agent
learns nothing of value.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

from elfmesh.errors import ConfigError

TOKEN_FILE = "api.token"
TOKEN_BYTES = 32
TOKEN_CHARACTERS_MAX = 256
_NOTES = ("elf", "tokens")


def new_token(directory: Path) -> tuple[str, Path]:
    """Create a token and replace the token file in `directory`; returns both. Raises OSError."""
    token, path = secrets.token_urlsafe(TOKEN_BYTES), directory / TOKEN_FILE
    write_private(path, token.encode() + b"\n")
    return token, path


def write_private(path: Path, data: bytes) -> None:
    """Replace a file atomically by one that only its owner can read. The file is on disk on return.

    Raises:
        OSError: the file cannot be written.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def read_private(path: str | Path, *, what: str, bytes_max: int = 1 << 16) -> bytes:
    """Read a file that only its owner can read and that belongs to this user or root.

    Raises:
        ConfigError: the file cannot be read, other users can read it, or it belongs to another user.
    """
    try:
        with Path(path).open("rb") as file:
            status = os.fstat(file.fileno())
            data = file.read(bytes_max + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {what}: {error.strerror or error}", where=str(path)) from None
    if status.st_mode & 0o077:
        raise ConfigError(f"other users can read {what}", where=str(path), hint=f"chmod 600 {path}")
    if os.geteuid() != 0 and status.st_uid not in (os.geteuid(), 0):
        raise ConfigError(f"{what} belongs to another user", where=str(path))
    if len(data) > bytes_max:
        raise ConfigError(f"{what} has more than {bytes_max} bytes", where=str(path))
    return data


def read_token(path: str | Path) -> str:
    """Read a token from a file. Raises ConfigError as `read_private`, or if there is no token."""
    text = read_private(path, what="the API token", bytes_max=TOKEN_CHARACTERS_MAX).strip()
    if not text or not text.isascii() or any(byte <= 0x20 or byte == 0x7F for byte in text):
        raise ConfigError(
            "contains no API token", where=str(path), hint="The agent writes it when it starts."
        )
    return text.decode("ascii")


def note_directories() -> list[Path]:
    """Return the directories for notes, the preferred one first: in $XDG_RUNTIME_DIR, then ~/.local/state."""
    found: list[Path] = []
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        found.append(Path(runtime).joinpath(*_NOTES))
    with contextlib.suppress(RuntimeError):  # the user has no home directory
        found.append(Path("~/.local/state").expanduser().joinpath(*_NOTES))
    return found


def leave_note(address: str, token_file: Path) -> Path | None:
    """Write a note that the agent with this token file answers at `address` ("HOST:PORT").

    Removes notes of agents whose token files no longer exist. Returns None if no directory is writable.
    """
    for directory in note_directories():
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _own(directory.lstat()):
                continue
            _sweep(directory)
            note = directory / address
            write_private(note, os.fsencode(token_file.absolute()))
        except OSError:
            continue
        return note
    return None


def remove_note(note: Path | None, token_file: Path) -> None:
    """Remove what `new_token` and `leave_note` wrote, unless another agent has replaced it."""
    with contextlib.suppress(OSError):
        if note is not None and note.read_bytes() == os.fsencode(token_file.absolute()):
            note.unlink()
    with contextlib.suppress(OSError):
        token_file.unlink()


def noted_token(address: str) -> str | None:
    """Return the token of this user's own agent at `address` ("HOST:PORT"); None if there is no note."""
    for directory in note_directories():
        note = directory / address
        try:
            if not (_own(directory.lstat()) and _own(note.lstat()) and stat.S_ISREG(note.lstat().st_mode)):
                continue
            target = os.fsdecode(note.read_bytes())
            return read_token(target)
        except (OSError, ConfigError, ValueError):
            continue  # the note of an agent that was killed
    return None


def _own(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _sweep(directory: Path) -> None:
    for note in list(directory.iterdir()):
        with contextlib.suppress(OSError, ValueError):
            if not Path(os.fsdecode(note.read_bytes())).exists():
                note.unlink()
