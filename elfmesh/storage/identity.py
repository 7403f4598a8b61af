"""The identity of an agent: the identity file of a data directory, and its copy in the state log.

  id = JSON {"id": hex, "incarnation": newest start, "rewritten": see `_Stored`, "sum": CRC-32}

A damaged file is never replaced by another id, because the state log contains the id as well.
"""

from __future__ import annotations

import logging
import random
import secrets
import zlib
from dataclasses import dataclass

import msgspec

from elfmesh.errors import ConfigError, StorageError
from elfmesh.ids import ID_BYTES
from elfmesh.storage import statelog
from elfmesh.storage.storage import Storage

IDENTITY_FILE = "id"
WITHOUT_ID = (
    "Restore the file from a copy. Without one, first count how many voters of each job would remain (`elf"
    " describe JOB` names them). If a majority remains, remove the file; the agent then becomes a new one."
)
RESTORED_FILE = "restored"
"""File that names the agent from whose backup the data directory was created; see
`data_directory/restore.py`."""

log = logging.getLogger("elf.agent")


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of an agent: an id that the data directory keeps, and the number of this start.

    `rng` is seeded once, for all randomness in the cores.
    """

    id: bytes
    incarnation: int
    rng: random.Random


class _Stored(msgspec.Struct, omit_defaults=True):
    """The identity on disk; that of an earlier release has neither `rewritten` nor `sum`.

    `rewritten` is the newest start that has rewritten the state log; `sum` is the CRC-32 of the other values.
    """

    id: str
    incarnation: int
    rewritten: int = 0
    sum: str = ""

    @property
    def checksum(self) -> str:
        return f"{zlib.crc32(f'{self.id} {self.incarnation} {self.rewritten}'.encode()):08x}"


class RestoredFrom(msgspec.Struct, frozen=True):
    """The agents from whose backups a data directory was created: ids in hexadecimal, the last one first."""

    agents: tuple[str, ...]
    made_us: int


def identity_of(raw: bytes) -> bytes:
    return bytes.fromhex(_decoded(raw, IDENTITY_FILE).id)


def _decoded(raw: bytes, where: str) -> _Stored:
    try:
        stored = msgspec.json.decode(raw, type=_Stored)
        if len(bytes.fromhex(stored.id)) != ID_BYTES:
            raise ValueError(f"an id has {ID_BYTES} bytes")
        if stored.sum not in ("", stored.checksum):
            raise ValueError("its checksum is another")
    except (msgspec.MsgspecError, ValueError) as error:
        raise StorageError(f"is damaged: {error}", where=where, hint=WITHOUT_ID) from None
    return stored


def _store(storage: Storage, agent: bytes, incarnation: int, rewritten: int) -> None:
    stored = _Stored(agent.hex(), incarnation, rewritten)
    stored.sum = stored.checksum
    storage.write(IDENTITY_FILE, msgspec.json.encode(stored))


def _stored(storage: Storage) -> _Stored | None:
    """Return the identity of a data directory, or None; taken from the state log if the file is damaged."""
    raw = storage.read(IDENTITY_FILE)
    if raw is None:
        return None
    where = storage.where(IDENTITY_FILE)
    try:
        return _decoded(raw, where)
    except StorageError as error:
        header = statelog.header_of(storage)
        if header is None or not header.owner.strip(b"\0"):
            raise
        log.error("%s: it is taken from the state log, and the file is written again", error)
        # the newest start may have ended before it rewrote the state log
        return _Stored(header.owner.hex(), header.boot + 1, header.boot)


def rewritten_by(storage: Storage) -> int:
    """Return the newest start of the agent that has rewritten the state log, or 0 if none is known."""
    stored = _stored(storage)
    return 0 if stored is None else stored.rewritten


def state_rewritten(storage: Storage, boot: int) -> None:
    """Record that this start has rewritten the state log, so that an older log is detected."""
    stored = _stored(storage)
    if stored is not None and stored.incarnation == boot:
        _store(storage, bytes.fromhex(stored.id), boot, boot)


def load_identity(storage: Storage, named: bytes = b"") -> Identity:
    """Read or create the identity of a data directory. The raised incarnation is stored before it is used.

    `named` is the id in the agent's certificate (b"": none).

    Raises:
        ConfigError: the directory belongs to another agent, or was restored from a backup of this agent.
    """
    stored = _stored(storage) or _Stored((named or secrets.token_bytes(ID_BYTES)).hex(), 0)
    agent, boot = bytes.fromhex(stored.id), stored.incarnation + 1
    _check_same(agent, named)
    _check_restored(storage, agent)
    _store(storage, agent, boot, stored.rewritten)
    return Identity(agent, boot, random.Random(secrets.randbits(64)))


def _check_same(stored: bytes, named: bytes) -> None:
    if named and stored != named:
        raise ConfigError(
            f"the data directory belongs to agent {stored.hex()}, but the certificate to agent {named.hex()}",
            where="tls.cert",
            hint=f"Certify this id (`elf ca issue --id {stored.hex()}`), or name another data directory.",
        )


def restored_from(raw: bytes | None) -> tuple[str, ...]:
    """Return the agents from whose backups a data directory was created; empty if it was not restored."""
    try:
        return msgspec.json.decode(raw, type=RestoredFrom).agents if raw else ()
    except msgspec.MsgspecError as error:
        raise StorageError(f"is damaged: {error}", where=RESTORED_FILE) from None


def _check_restored(storage: Storage, agent: bytes) -> None:
    """Raise ConfigError if the agent would start with an old copy of its own state."""
    if agent.hex() in restored_from(storage.read(RESTORED_FILE)):
        raise ConfigError(
            f"the data directory was restored from a backup of agent {agent.hex()}, without its votes",
            where="tls.cert",
            hint="Issue a certificate with a new id, because the agent must become a new one.",
        )
