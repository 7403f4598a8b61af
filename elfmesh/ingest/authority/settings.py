"""Settings of authorisation in agent.toml: `[manifests]`, `[namespaces.NAME]`, `[fields]`, `[audit]`.

Also those of data residency (`[placement]`). Owns names, defaults and checks. Only a user who can write the
file can change a setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec

from elfmesh.control.jobs.failure_domains import DOMAIN_LABELS
from elfmesh.control.jobs.hidden_fields import DENIED, FieldRules
from elfmesh.control.jobs.policy import Grant, Policy
from elfmesh.control.jobs.signing import read_key
from elfmesh.errors import ConfigError
from elfmesh.srt.residency import ANYWHERE, Rule
from elfmesh.units import parse_size

AUDIT_BYTES_MIN = 100_000
"""Minimum size of a file; a smaller one would be full after some hundred actions."""

_Count = Annotated[int, msgspec.Meta(ge=1)]


class ManifestsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Jobs that may run here: all, or those with enough signatures.

    Attributes:
        require: "signed": every version of every job, and its deletion, needs signatures. "off": none does
            (Python functions always do, see [functions]).
        keys: public keys, as `elf key create` prints them, for namespaces without keys of their own.
        signatures: number of required signatures.
    """

    require: Literal["off", "signed"] = "off"
    keys: tuple[str, ...] = ()
    signatures: _Count = 1


class NamespaceConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Permissions of the jobs of one namespace here; anything that is not listed is denied.

    Attributes:
        streams: streams whose records they may read; patterns such as "shop-*".
        lookups: tables that they may join.
        sinks: sinks that may store their results.
        columns: fields that they may read, as dotted paths; nested fields are included.
        deny_columns: fields among them that they may not read, as dotted paths without patterns. Whole lines
            (`_raw`) are then denied too.
        reads: other namespaces whose results they may read.
        keys: public keys that sign their manifests, instead of those of [manifests].
        signatures: number of required signatures.
        jobs: most of their jobs that this agent works on at a time.
        groups: most rows of partial aggregates in open intervals of one job; a job with more ends here.
        sketch: the largest size of a sketch or collected list that a job may request.
    """

    streams: tuple[str, ...] = ()
    lookups: tuple[str, ...] = ()
    sinks: tuple[str, ...] = ()
    columns: tuple[str, ...] = ("*",)
    deny_columns: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    signatures: _Count = 1
    jobs: _Count | None = None
    groups: _Count | None = None
    sketch: _Count | None = None


class FieldsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fields of records that are hidden from all jobs and displays.

    Attributes:
        deny: names at any depth, compared without case and punctuation; patterns with "*". The default has
            names of credentials; [] hides nothing.
        allow: names that are not hidden although they match.
    """

    deny: tuple[str, ...] = DENIED
    allow: tuple[str, ...] = ()


class CoordinationConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Labels that new versions of jobs must have here; see docs/coordination.md.

    Attributes:
        require: the highest label that an output may have, by names of jobs or patterns: { "shop/*" =
            "Async" }. Several patterns of a job: the lowest one.
    """

    require: dict[str, Literal["Async", "Run", "Inst", "Diverge"]] = {}


class PlacementConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the data of this host may be sent; see docs/wide-area.md.

    Attributes:
        keep_in: labels such as "region=eu"; an agent gets partial aggregates, copies and open windows of this
            host only if it has one of them. Empty: all agents may get them.
        results: "any": the closed results of jobs, which contain contributions of this host, may be read
            anywhere. Required with `keep_in`, because each agent may read the results of each job.
    """

    keep_in: tuple[str, ...] = ()
    results: Literal["", "any"] = ""

    @property
    def rule(self) -> Rule:
        return (tuple(sorted(set(self.keep_in))),) if self.keep_in else ANYWHERE


def check_placement(placement: PlacementConfig, labels: Mapping[str, str], source: str) -> None:
    """Check the rule of a host with these labels. Raises ConfigError."""
    where = f"{source}: placement"
    for text in placement.keep_in:
        label, _, value = text.partition("=")
        if label not in DOMAIN_LABELS or not value:
            hint = f'Write "LABEL=VALUE"; the labels are {" and ".join(DOMAIN_LABELS)}.'
            problem = f"{text!r} is not a label of a failure domain"
            raise ConfigError(problem, where=f"{where}.keep_in", hint=hint)
    own = {f"{label}={labels.get(label, '')}" for label in DOMAIN_LABELS}
    if placement.keep_in and own.isdisjoint(placement.keep_in):
        hint = f"Give this agent one of these labels under [labels]: {', '.join(placement.keep_in)}."
        raise ConfigError("excludes this agent itself", where=f"{where}.keep_in", hint=hint)
    if placement.keep_in and not placement.results:
        raise ConfigError(
            "is required with keep_in, because the closed results of jobs can be read at every agent",
            where=f"{where}.results",
            hint='Write results = "any" to allow that.',
        )


class AuditConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Audit log.

    Attributes:
        file_max: size at which the next file begins.
        files: number of files that are kept.
    """

    file_max: str = "16 MB"
    files: Annotated[int, msgspec.Meta(ge=2, le=1000)] = 8

    @property
    def file_bytes_max(self) -> int:
        return parse_size(self.file_max)


def policy_of(
    fields: FieldsConfig,
    namespaces: Mapping[str, NamespaceConfig],
    signed: bool,
    require: Mapping[str, str] = MappingProxyType({}),
    queries: int = Policy.queries,
    standby_bytes: int = Policy.standby_bytes,
    keep_in: Rule = ANYWHERE,
    query_bytes: int | None = None,
) -> Policy:
    grants = {
        name: Grant(
            streams=each.streams,
            lookups=each.lookups,
            columns=each.columns,
            deny=each.deny_columns,
            reads=each.reads,
            jobs=each.jobs,
            groups=each.groups,
            sketch=each.sketch,
        )
        for name, each in namespaces.items()
    }
    hidden = FieldRules(fields.deny, fields.allow)
    return Policy(hidden, grants, signed, require, queries, standby_bytes, keep_in, query_bytes)


def sink_may_carry(namespaces: Mapping[str, NamespaceConfig], sink: str, job: str) -> bool:
    if not namespaces:
        return True
    config = namespaces.get(job.partition("/")[0], namespaces.get("*"))
    return config is not None and any(pattern in (sink, "*") for pattern in config.sinks)


def check_authority(
    manifests: ManifestsConfig, namespaces: Mapping[str, NamespaceConfig], audit: AuditConfig, source: str
) -> None:
    needed = manifests.require == "signed"
    _check_keys(manifests.keys, manifests.signatures, f"{source}: manifests", needed and not namespaces)
    for name, each in namespaces.items():
        where = f"{source}: namespaces.{name}"
        own = each.keys or manifests.keys
        _check_keys(own, each.signatures if each.keys else manifests.signatures, where, needed)
        if found := [path for path in each.deny_columns if "*" in path]:
            hint = "Name the fields, or list what may be read in columns."
            raise ConfigError(f"{found[0]!r} is a pattern", where=f"{where}.deny_columns", hint=hint)
        if each.keys and not needed:
            raise ConfigError(
                "keys are given, but no manifest needs a signature",
                where=f"{where}.keys",
                hint='Write require = "signed" under [manifests].',
            )
    try:
        size = audit.file_bytes_max
    except ConfigError as error:
        raise ConfigError(error.message, where=f"{source}: audit.file_max", hint=error.hint) from None
    if size < AUDIT_BYTES_MIN:
        raise ConfigError(f"is less than {AUDIT_BYTES_MIN // 1000} kB", where=f"{source}: audit.file_max")


def _check_keys(keys: tuple[str, ...], signatures: int, where: str, needed: bool) -> None:
    """Raise ConfigError for unreadable keys, or for fewer keys than required signatures."""
    found = {read_key(key, where=f"{where}.keys") for key in keys}
    if needed and len(found) < signatures:
        raise ConfigError(
            f"{signatures} of {len(found)} keys must sign, which is impossible",
            where=f"{where}.signatures",
            hint='Name the keys: keys = ["ed25519:..."]',
        )
