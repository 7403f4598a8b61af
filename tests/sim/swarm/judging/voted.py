"""The members expected in a record that votes close. A site names them, because the master may be dead."""

from __future__ import annotations

from elfmesh.agent.runtime.assembly import LocalAgent
from elfmesh.control.protocol import events as ctl

AT_SITES = "appended at sites"
"""Name of the counter of records that sites append under a grant, each site for itself."""


def at_site(local: LocalAgent, appended: ctl.Append) -> tuple[str, ...] | None:
    """Return the members expected in a record; None unless the agent appends it as a site under a grant."""
    site, record = local.control.sites._sites.get(appended.job), appended.record
    if site is None or site._grant.epoch != record.epoch or record.index < site._grant.first:
        return None
    return tuple(site.book.names(site.book.required(record.index)))
