"""Who is expected in a record that votes close: its master may be dead, so that a site has to tell."""

from __future__ import annotations

from elfmesh.agent.runtime.assembly import LocalAgent
from elfmesh.control.protocol import events as ctl

AT_SITES = "appended at sites"
"""Name of the counter of records that sites append under a grant, each site for itself."""


def at_site(local: LocalAgent, appended: ctl.Append) -> tuple[str, ...] | None:
    """Return who is expected in a record that an agent appends as a site; None: it is none of its epoch."""
    site, record = local.control.sites._sites.get(appended.job), appended.record
    if site is None or site._grant.epoch != record.epoch or record.index < site._grant.first:
        return None
    return tuple(site.book.names(site.book.required(record.index)))
