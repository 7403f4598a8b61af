"""The manifest of a job, which is identical at all its agents.

Owns the names of a job and the canonical bytes of its manifest.

Invariants: `job_id` is the SHA-1 of the qualified name and the creator (the paper's appId, ELF 2.3). The
version grows with each change of the text. `incarnation` changes when the numbering of intervals or the
columns of the results start again, so that a reader never applies a stored position to other results.
"""

from __future__ import annotations

from typing import Annotated, Protocol, TypeAlias

import msgspec

from elfmesh import ids
from elfmesh.machine import Count, Id, Index

NAMESPACE = "default"
"""Namespace of a job whose name has no dot."""

CREATOR = "local"
"""Creator of a job without an authenticated principal."""

TEXT_BYTES_MAX = 128 << 10
"""Maximum size of a job's text, which message headers carry to every agent of the stream."""

# Pattern for names from peers; it is a little wider than JOB_NAME.
Name: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_-]*\Z", max_length=140)]
Creator: TypeAlias = Annotated[str, msgspec.Meta(max_length=1024)]
Incarnation: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_-]*\Z", max_length=64)]
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=TEXT_BYTES_MAX)]
_PACK = msgspec.msgpack.Encoder()


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One version of one job.

    Attributes:
        namespace: part of the job's name before the slash.
        name: part of the job's name after the slash.
        creator: principal that owns the job.
        text: the ELF-QL statement.
        version: 1, 2, ... for this name and creator.
        job_id: 20 bytes, key of the job's tree.
        partitions: number of trees, each for one hash range of the keys.
        created: wall-clock microseconds of the job's first submission, for display only.
        incarnation: name of one numbering of results.
        since_us: records before this event time count as filtered (`elf empty`); None: no limit.
        narrowed: labels that an agent must have besides those of the text; a canary has them.
        signed: the envelope of its signatures (`signing`), as submitted; each agent checks it.
        asked: unused; kept because registers contain digests of manifests of earlier releases with it.
        resumed: whether the job continues from a savepoint, so that agents read all available data from the
            beginning, including rotated files, whatever their streams are configured to read.
        until_us: the job ends at this event time, exclusive (UNTIL); None: it does not end by itself.
        leased: whether the job ends when its client makes no request any more (`master.bounded`).
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
    until_us: Index | None = None
    leased: bool = False

    @property
    def qualified(self) -> str:
        """The qualified name, "namespace/name"."""
        return f"{self.namespace}/{self.name}"

    @property
    def trees(self) -> tuple[bytes, ...]:
        """Ids of the job's trees; the first is the id of the job."""
        return tuple(ids.partition_tree(self.job_id, p) for p in range(self.partitions))

    def canonical(self) -> bytes:
        """Return the bytes that agents store and compare.

        Registers contain their digest, so that the bytes must not change when a release adds a field. An
        added field is left out where it has its default.
        """
        values = msgspec.structs.asdict(self)
        for name in _ADDED:
            if values[name] == _DEFAULTS[name]:
                del values[name]
        return _PACK.encode(values)


_ADDED = ("asked", "resumed", "until_us", "leased")
"""Fields that were added after the first release of wire version 1."""
_DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(Manifest)}


class JobNames(Protocol):
    """Names of a job in a parsed statement."""

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
    """Return the name of a job's canary."""
    return f"{name}-canary"


def canary_of(manifest: Manifest, labels: dict[str, str]) -> Manifest:
    """Return the manifest of the canary with the same text, for the agents with these labels."""
    name = canary_name(manifest.name)
    return msgspec.structs.replace(
        manifest,
        name=name,
        job_id=ids.job_id(f"{manifest.namespace}/{name}", manifest.creator),
        narrowed=tuple(sorted(labels.items())),
    )


def updated(old: Manifest, new: Manifest) -> Manifest:
    """Return `new` as the next version of `old`, with the beginning and the end of a job with HISTORY."""
    if old.job_id != new.job_id:
        raise ValueError(f"{new.qualified} of {new.creator} is not a version of {old.qualified}")
    since_us = old.since_us if new.resumed else new.since_us
    return msgspec.structs.replace(
        new,
        version=old.version + 1,
        created=old.created,
        since_us=since_us,
        until_us=old.until_us,
        leased=old.leased,
    )


def split_name(text: str) -> tuple[str, str]:
    """Return namespace and name of "shop/top", "shop.top" or "top".

    Raises:
        ValueError: the text is not the name of a job.
    """
    namespace, _, name = text.strip().replace(".", "/", 1).rpartition("/")
    namespace = namespace or NAMESPACE
    if not ids.JOB_NAME.fullmatch(name) or not ids.JOB_NAME.fullmatch(namespace):
        raise ValueError(f"{text!r} is not the name of a job")
    return namespace, name
