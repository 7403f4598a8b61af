"""The manifest of a job: what everyone who works on it must agree on, byte for byte.

Owns the names of a job and the canonical bytes of its manifest. Knows none of its users.

Invariants: `job_id` is SHA-1 of the qualified name and the creator (the paper's appId, ELF 2.3); the version
grows with each change of the text; `incarnation` is another one whenever the numbering of intervals or the
columns of the results start again, so that a reader's stored position is never applied to other results.
"""

from __future__ import annotations

from typing import Annotated, Protocol, TypeAlias

import msgspec

from elfmesh import ids
from elfmesh.errors import ProtocolError
from elfmesh.machine import Count, Id, Index
from elfmesh.wire import UNREADABLE

NAMESPACE = "default"
"""Namespace of a job whose name has no dot."""

CREATOR = "local"
"""Creator of a job applied without one; identities come with certificates."""

TEXT_BYTES_MAX = 128 << 10
"""ELF-QL text of one job: it travels in headers and to every agent of the stream."""

# Of what peers send, a little wider than JOB_NAME.
Name: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_-]*\Z", max_length=140)]
Creator: TypeAlias = Annotated[str, msgspec.Meta(max_length=1024)]
Incarnation: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_-]*\Z", max_length=64)]
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=TEXT_BYTES_MAX)]
_PACK = msgspec.msgpack.Encoder()
_UNPACK: msgspec.msgpack.Decoder[Manifest]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One version of one job.

    Attributes:
        namespace: part of the job's name before the slash.
        name: part after it.
        creator: whose job it is.
        text: the ELF-QL statement.
        version: 1, 2, ... for this name and creator.
        job_id: 20 bytes, key of the job's tree.
        partitions: number of trees, each for one hash range of the keys.
        created: wall-clock microseconds of the job's first submission, for people only.
        incarnation: names one numbering of results.
        since_us: records before this event time count as filtered (`elf empty`); None: all are taken.
        narrowed: labels that an agent must have beside those of the text: a canary's.
        signed: the envelope of its signatures (`signing`), as it was given; agents check it for themselves.
        asked: kept only because registers hold its digest: earlier versions named requests by it.
        resumed: it goes on from a savepoint: agents that begin with it read all that they still have, rotated
            files too, whatever their streams say of where to begin.
    """

    namespace: Name
    name: Name
    creator: Creator
    text: Text
    version: Count
    job_id: Id
    partitions: Count = 1
    created: Count = 0
    incarnation: Incarnation = ""
    since_us: Index | None = None
    narrowed: tuple[tuple[str, str], ...] = ()
    signed: bytes = b""
    asked: tuple[bytes, ...] = ()
    resumed: bool = False

    @property
    def qualified(self) -> str:
        """The name people use: "namespace/name"."""
        return f"{self.namespace}/{self.name}"

    @property
    def trees(self) -> tuple[bytes, ...]:
        """Ids of the trees that reduce it; the first is the job's own."""
        return tuple(ids.partition_tree(self.job_id, p) for p in range(self.partitions))

    def canonical(self) -> bytes:
        """The bytes that are stored and compared: the same on every agent.

        Registers hold their digest, so they must not change when a field is added: one that says nothing is
        left out, and what an earlier version wrote comes out as it was.
        """
        reported = msgspec.structs.asdict(self)
        for name in _ADDED:
            if reported[name] == _DEFAULTS[name]:
                del reported[name]
        return _PACK.encode(reported)

    @classmethod
    def from_canonical(cls, data: bytes) -> Manifest:
        """Read `canonical` bytes.

        Raises:
            ProtocolError: anything else.
        """
        try:
            return _UNPACK.decode(data)
        except UNREADABLE as error:
            raise ProtocolError(f"not a manifest: {error}") from None


_UNPACK = msgspec.msgpack.Decoder(Manifest)
_ADDED = ("asked", "resumed")
"""Fields that were added since wire version 1 began."""
_DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(Manifest)}


class JobNames(Protocol):
    """The part of a parsed statement's job clause that names it."""

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def partitions(self) -> int: ...


def new_manifest(
    job: JobNames, text: str, creator: str, *, created: int, incarnation: str, signed: bytes = b""
) -> Manifest:
    return Manifest(
        namespace=job.namespace,
        name=job.name,
        creator=creator,
        text=text,
        version=1,
        job_id=ids.job_id(f"{job.namespace}/{job.name}", creator),
        partitions=job.partitions,
        created=created,
        incarnation=incarnation,
        signed=signed,
    )


def canary_name(name: str) -> str:
    """The name of a job's canary: another job, which runs the next text on a few agents."""
    return f"{name}-canary"


def canary_of(manifest: Manifest, labels: dict[str, str]) -> Manifest:
    """The same text as a canary's, for the agents with these labels."""
    name = canary_name(manifest.name)
    return msgspec.structs.replace(
        manifest,
        name=name,
        job_id=ids.job_id(f"{manifest.namespace}/{name}", manifest.creator),
        narrowed=tuple(sorted(labels.items())),
    )


def updated(old: Manifest, new: Manifest) -> Manifest:
    """`new` as the next version of `old`: the same name, creator and age, another text."""
    if old.job_id != new.job_id:
        raise ValueError(f"{new.qualified} of {new.creator} is not a version of {old.qualified}")
    return msgspec.structs.replace(new, version=old.version + 1, created=old.created)


def split_name(text: str) -> tuple[str, str]:
    """Namespace and name of "shop/top", "shop.top" or "top".

    Raises:
        ValueError: not a job's name.
    """
    namespace, _, name = text.strip().replace(".", "/", 1).rpartition("/")
    namespace = namespace or NAMESPACE
    if not ids.JOB_NAME.fullmatch(name) or not ids.JOB_NAME.fullmatch(namespace):
        raise ValueError(f"{text!r} is not the name of a job")
    return namespace, name
