"""Every error elfmesh raises, as one tree.

::

    ElfError                         exit code
    |- LocalError                    1    the mistake is here: in what this process was given, or on its host
    |  |- UsageError                 2    the command line is wrong
    |  |- QueryError                 65   the ELF-QL text is wrong (line, column, hint)
    |  |- DataError                  65   the input data cannot be used at all
    |  |  `- ResultTooLarge          65   a result has more rows than its agent may hold
    |  |- RuntimeFailure             1    something failed while running
    |  |  |- NotInstalled            1    what was asked for needs an extra that is not installed
    |  |  `- StorageError            1    a disk refused or lost something
    |  |     `- DiskFull             1    it has no room; what should be written can be written later
    |  `- ConfigError                78   the configuration is wrong (file, key)
    |- RemoteError                   1    another process is at fault, is silent, or refuses
    |  |- Unreachable                69   no agent answered
    |  `- ProtocolError              -    a peer broke the protocol: counted, never shown as our fault
    `- ControlFlow                   -    a computation goes on in another way; its room catches it

The classes here are the branches. A room makes its own classes from the branch that fits. No exception class
of the package is outside the tree, except that of a script that imports nothing of the package
(`ingest/functions/child.py`). Misuse by our own code raises ValueError, because it is a bug.
A peer's fault is never raised out of a machine's `step`: there it is an effect and a counter.
Messages say what is wrong, where, and what to do; `hint` is the second sentence, `where` the place.
"""

from __future__ import annotations

import errno


class ElfError(Exception):
    """Base of all errors a user can cause or meet; `exit_code` is what the `elf` command returns."""

    exit_code = 1

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        hint = f"\n  {self.hint}" if self.hint else ""
        return f"{place}{self.message}{hint}"


class LocalError(ElfError):
    """The mistake is here: in what this process was given, in its own work, or on its host."""


class UsageError(LocalError):
    """Wrong arguments."""

    exit_code = 2


class DataError(LocalError):
    """Input that cannot be read as what it was declared to be."""

    exit_code = 65


class ResultTooLarge(DataError):
    """The rows of one result have more bytes than the agent that makes them may hold.

    Args:
        size: bytes that the rows have at least.
        most: bytes that `limits.memory` allows.
    """

    def __init__(self, size: int, most: int) -> None:
        super().__init__(
            f"the result has {size} bytes or more; limits.memory of the job's master allows {most}",
            hint="Raise limits.memory, group by fewer keys, or add LIMIT.",
        )


class QueryError(LocalError):
    """Wrong or unsupported ELF-QL.

    Attributes:
        line: 1-based line of the offending token in the text, 0 if it has no place.
        column: 1-based column of the offending token, 0 if it has no place.
        source: what the text was read from, such as `top.elfql`.
    """

    exit_code = 65

    def __init__(
        self, message: str, *, line: int = 0, column: int = 0, hint: str = "", source: str = "query"
    ) -> None:
        self.line, self.column, self.source = line, column, source
        super().__init__(message, where=f"{source}:{line}:{column}" if line else source, hint=hint)


class RuntimeFailure(LocalError):
    """Something failed while running, not through any input."""


class NotInstalled(RuntimeFailure):
    """What was asked for needs an extra of this package that is not installed; the hint says which."""


class StorageError(RuntimeFailure):
    """A disk refused a write, or a file of ours is damaged. A failed sync is fatal (D-1)."""


class DiskFull(StorageError):
    """There was no room to write; nothing was written, and trying again later is safe."""

    ERRNOS = (errno.ENOSPC, errno.EDQUOT)
    """What a system call says then. Of a sync it says that something is lost: that is no DiskFull."""


class RemoteError(ElfError):
    """Another process is at fault, is silent, or refuses: a peer, a client, or a service."""


class Unreachable(RemoteError):
    """No agent answers at the given address."""

    exit_code = 69


class ConfigError(LocalError):
    """A wrong configuration: a file, or what is laid over it."""

    exit_code = 78


class ProtocolError(RemoteError):
    """A peer sent something outside the protocol or its limits; the connection is closed and counted."""


class ControlFlow(ElfError):
    """A computation goes on in another way. The room that raises it catches it, and no user sees it."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
