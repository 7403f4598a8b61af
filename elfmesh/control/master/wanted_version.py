"""A version of a running job that a client wants, or that the master takes back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from elfmesh import ql
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.terms import Terms
from elfmesh.machine import Contact


@dataclass(frozen=True, slots=True)
class WantedVersion:
    """See the module.

    Attributes:
        manifest: with its number.
        state: what becomes of the agents' state, as `describe` shows it.
        origin: agent of the client, or None if the master takes a version back.
        token: of the request.
        since: time of the request.
        soon: the version begins with the first open interval, even if members have begun that.
        empties: records before the end of the version's first interval do not count.
        extra: fields of the answer besides the summary.
        halted: why the master takes the last version back, or "" if a client wants that.
        refused: called if this master does not bring the version into force.
    """

    manifest: Manifest
    state: str
    origin: Contact | None
    token: int
    since: float
    soon: bool = False
    empties: bool = False
    extra: tuple[tuple[str, Any], ...] = ()
    halted: str = ""
    refused: Callable[[], None] = lambda: None


def going_back(
    terms: Terms, now: float, *, origin: Contact | None = None, token: int = 0, halted: str = ""
) -> WantedVersion:
    """The version before the newest, as the next version; `terms.older` must not be empty."""
    before = terms.older[-1].manifest
    manifest = replace(before, version=terms.manifest.version + 1, asked=())
    state = ql.compare(terms.manifest.text, before.text).state
    return WantedVersion(manifest, state, origin, token, now, soon=True, halted=halted)
