"""What members do without their safeguards where rosters are lost or versions change; see `ablations`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from elfmesh.control.jobs.records import FIRST
from elfmesh.control.member.accounts.ledger_state import SAME
from elfmesh.interval_map import END
from tests.sim.swarm.ablations.names import Patch, always
from tests.sim.swarm.shapes import LEAVING, PRUNING, VOTES, Shape


def _kept_behind(numbers: list[Any], new: Any) -> list[Any]:
    """A new number replaces none, and begins nothing where it is the one before."""
    before = next((each for each in reversed(numbers) if each.first <= new.first), None)
    if before is not None and before[1:] == new[1:]:
        return numbers
    return sorted([*(each for each in numbers if each.first != new.first), new])


LOST = "tests/control/member/test_lost_first_interval.py"
ELSEWHERE = {
    "counted-before-the-start": LOST,
    "decided-by-its-number": LOST,
    "number-of-its-epoch": "tests/control/master/test_lost_rosters.py",
    "lowered-first": LOST,
    "refused-again": LOST,
    "outside-when-closed": LOST,
    "annulled-corrections": LOST,
    "annulled-below-the-first": LOST,
    "frontier-before-numbers": "tests/control/master/test_members.py",
    "one-number-at-a-time": "tests/control/master/test_members.py",
    "new-gateway-gets-all": "tests/control/member/test_member.py",
    "inside-its-group": "tests/srt/test_search.py",
    "one-attempt-for-all-groups": "tests/control/master/test_trees.py",
    "copies-are-kept-apart": "tests/control/closing/stores/test_replica_buffers.py",
    "idle-paths-revive": "tests/control/paths/test_idle_paths.py",
    "part-requests": "tests/control/paths/test_sites.py",
    "late-groups-are-requested": "tests/control/paths/test_sites.py",
    "part-budget": "tests/control/paths/test_part_requests.py",
    "sites-are-asked-before-an-end": "tests/control/paths/test_sites.py",
    "inherits-known-numbers": "tests/control/paths/test_inheritance.py",
    "readable-when-chosen": "tests/control/paths/test_sites.py",
    "kept-in": "tests/agent/runtime/test_core.py",
    "relays-its-own-rule": "tests/srt/test_membership.py",
    "voters-by-domain": "tests/control/register/test_members.py",
    "settled-when-the-terms-are-known": "tests/control/register/test_members.py",
}
"""Stories that are too rare for seeds: a roster is lost, or a version is taken back, while a member joins."""

SAFEGUARDS: dict[str, tuple[str, str, Callable[[], list[Patch]], Shape]] = {
    "counted-before-the-start": (
        "what a member has counted as expired before its first interval never goes up",
        "D-1",
        always(
            ("counted-before-the-start:first", lambda self, entry: entry.start),
            (
                "counted-before-the-start:begun",
                property(lambda self: FIRST if self.start is None else self.start),
            ),
        ),
        VOTES,
    ),
    "new-gateway-gets-all": (
        "a new gateway gets everything that is open",
        "D-8",
        always(("new-gateway-gets-all", lambda self: False)),
        VOTES,
    ),
    "one-attempt-for-all-groups": (
        "all groups follow one that is collected again",
        "D-7",
        always(("one-attempt-for-all-groups", lambda self, partition, segment: None)),
        VOTES,
    ),
    "late-groups-are-requested": (
        "a master requests from the sites what a group is late with",
        "D-8",
        always(("late-groups-are-requested", lambda self, group, at, lacking: None)),
        VOTES,
    ),
    "sites-are-asked-before-an-end": (
        "an interval ends without a member after the sites were asked for it",
        "D-8",
        always(("sites-are-asked-before-an-end", lambda self, missing, due: due)),
        VOTES,
    ),
    "copies-are-kept-apart": (
        "the trees of a group are collected apart",
        "D-7",
        always(("copies-are-kept-apart", lambda self, copy: self.copies[0])),
        PRUNING,
    ),
    "idle-paths-revive": (
        "an idle path that is requested carries parts again",
        "D-8",
        always(("idle-paths-revive", lambda self, gateway, site: None)),
        PRUNING,
    ),
    "part-budget": (
        "part requests stay within their budget",
        "D-15",
        always(("part-budget", lambda self: True)),
        VOTES,
    ),
    "part-requests": (
        "a new master gets the open parts from the sites of the one before",
        "D-8",
        always(("part-requests", lambda self, request, part, payload: None)),
        VOTES,
    ),
    "inherits-known-numbers": (
        "a part of the roster epoch before counts only if its numbers mean the same agents",
        "D-7",
        always(("inherits-known-numbers", lambda self, roster_epoch, members: True)),
        VOTES,
    ),
    "readable-when-chosen": (
        "a site has a record for its readers as soon as the register has chosen it",
        "D-17",
        always(("readable-when-chosen", lambda self, message: None)),
        VOTES,
    ),
    "kept-in": (
        "an agent sends data of a host to no agent that the host's rule excludes",
        "D-23",
        always(("kept-in", lambda self, effect: True)),
        VOTES,
    ),
    "relays-its-own-rule": (
        "contributions with a rule pass through agents that have the same rule, or through none",
        "D-23",
        always(("relays-its-own-rule", lambda self, rule: True)),
        VOTES,
    ),
    "inside-its-group": (
        "a group's tree grows among the group",
        "D-7",
        always(("inside-its-group", lambda self: None)),
        VOTES,
    ),
    "decided-by-its-number": (
        "what went up before its member's first interval was raised is decided by the number it went up by",
        "D-1",
        always(
            ("decided-by-its-number:kept", lambda self, each, number, first: []),
            ("decided-by-its-number:counted", property(lambda self: END)),
        ),
        VOTES,
    ),
    "voters-by-domain": (
        "the voters of a job are in several racks where there are several",
        "D-15",
        always(("voters-by-domain", lambda self, value: ([], []))),
        VOTES,
    ),
    "settled-when-the-terms-are-known": (
        "voters far from a job's id replace others after a majority of the agents near the id knows them",
        "D-4",
        always(("settled-when-the-terms-are-known", lambda self, value: False)),
        VOTES,
    ),
    "number-of-its-epoch": (
        "a member reads outcomes by a number only if the newest roster has it of the same epoch",
        "D-1",
        always(
            ("number-of-its-epoch:given", lambda given_in, number, epoch: True),
            ("number-of-its-epoch:outcomes", lambda roster, outcome: True),
        ),
        VOTES,
    ),
    "lowered-first": (
        "a member's new number decides all intervals from its first one on",
        "D-1",
        always(("lowered-first", _kept_behind)),
        VOTES,
    ),
    "refused-again": (
        "nothing goes up behind a range that was refused until the worker says that range again",
        "D-1",
        always(
            ("refused-again:range", lambda self, start: False),
            ("refused-again:revision", lambda self, interval: False),
        ),
        VOTES,
    ),
    "outside-when-closed": (
        "what no record can have is expired when its interval is closed, and not before",
        "D-1",
        always(("outside-when-closed", lambda self, index: 0)),
        VOTES,
    ),
    "annulled-corrections": (
        "corrections that went up with an annulled interval are pending again if it is closed first",
        "D-1",
        always(("annulled-corrections", lambda self, void: SAME)),
        VOTES,
    ),
    "annulled-below-the-first": (
        "what a worker that missed a change says again below the first interval counts as far as it stands",
        "D-1",
        always(("annulled-below-the-first", lambda self, event: event)),
        VOTES,
    ),
    "one-number-at-a-time": (
        "no interval expects an agent by two numbers",
        "D-14",
        always(("one-number-at-a-time", lambda self, agent, first: first)),
        LEAVING,
    ),
    "frontier-before-numbers": (
        "a new master numbers new members when it knows how far the others are",
        "D-14",
        always(("frontier-before-numbers", lambda self: False)),
        LEAVING,
    ),
    "enrolled-by-itself": (
        "a member that does not found its job gets its number by its own enrolment",
        "D-14",
        always(("enrolled-by-itself", lambda self: True)),
        LEAVING,
    ),
}
