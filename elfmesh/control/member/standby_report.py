"""What one agent reports of standbys: its own, by job, and what it holds for others.

The module reads members and changes nothing.
"""

from __future__ import annotations

from typing import Any

from elfmesh.control.context import Context
from elfmesh.control.member.member import Member
from elfmesh.control.member.member_host import MemberHost

REFUSED = ("control.chain_refused", "control.chain_no_room")
"""Counters of deltas that this agent has refused as a standby."""


def standby_report(context: Context, member_host: MemberHost) -> dict[str, Any]:
    """Return what the agent holds and has refused as a standby, and `jobs`: its own standbys.

    A job is there if its member has shipped open windows. `standby` is null, and so is `lag_seconds`, if no
    agent has acknowledged them.
    """
    panes = member_host.copy_store.panes
    members = (each for each in member_host.members.values() if each.panes.shipped_bytes)
    return {
        "held_bytes": panes.nbytes,
        "limit_bytes": panes.limit_bytes,
        "refused": sum(context.stats[each] for each in REFUSED),
        "jobs": {each.manifest.qualified: _own(each) for each in members},
    }


def _own(member: Member) -> dict[str, Any]:
    sender, standby = member.panes, member.panes.standby
    acknowledged = standby is not None and sender.acknowledged
    entries = () if member.terms is None else member.terms.members
    names = (each.name for each in entries if standby is not None and each.contact.id == standby.id)
    return {
        "standby": next(names, None) if acknowledged else None,
        "lag_seconds": sender.lag_s if acknowledged else None,
        "shipped_bytes": sender.shipped_bytes,
    }
