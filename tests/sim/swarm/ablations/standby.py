"""How standbys work without their safeguards; see `ablations`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tests.sim.swarm import scenario as kinds
from tests.sim.swarm.ablations.names import Patch, always, instead, original
from tests.sim.swarm.shapes import REPEATING, Shape, small

JOB = {"standby_ms": 100, "replicas": 1, "deadline_s": 0.5, "horizon_s": 1.0, "slide_s": 5, "size_s": 5}
DYING = small(kinds.CRASH, kinds.PAUSE, job=JOB, hosts=4, trouble_s=3.0, poll_s=0.1)
"""Members die or stop inside a window, and come back after it is closed."""

ELSEWHERE = {
    "sealed-ahead-is-not-due": "tests/control/test_leaving_flows.py",
    "handed-over-before-the-end": "tests/control/member/test_hand_over.py",
    "second-way": "tests/control/test_second_way_flows.py",
    "standby-elsewhere": "tests/control/member/test_pane_sender.py",
    "earlier-chain-stays": "tests/control/member/test_pane_store.py",
    "chains-of-the-epoch": "tests/control/member/test_pane_store.py",
    "deltas-of-the-version": "tests/control/replicas/test_prefix_store.py",
    "prefix-ends-with-its-seal": "tests/control/replicas/test_prefix_store.py",
    "eviction-after-windows": "tests/control/closing/test_eviction.py",
    "silent-peer-is-replaced": "tests/control/replicas/test_copy_peers.py",
    "plan-changes-for-a-gain": "tests/control/replicas/test_standby_plans.py",
    "plan-of-settled-rates": "tests/control/replicas/test_standby_plans.py",
    "standbys-within-their-rate": "tests/control/replicas/test_standby_plans.py",
    "plan-is-inherited": "tests/control/master/test_term_state.py",
    "prefix-is-no-coverage": "tests/control/test_standby_flows.py",
    "plan-with-a-new-roster": "tests/control/replicas/test_standby_plans.py",
}
"""No agent of a seed leaves at once, no invariant names the first of several tentative records, and a wrong
plan costs a prefix and makes no record wrong."""


def _any_version(chain: Any, evaluated: int, pane: int) -> list[Any]:
    """All deltas of a pane, whichever version has evaluated them."""
    return [each for (_, at), found in chain.panes.items() if at == pane for each in found]


def _covering() -> list[Patch]:
    """A member whose prefix is in an interval counts as inside."""
    found = original("prefix-is-no-coverage")

    def make(self: Any, run: Any, rev: int) -> Any:
        record, payloads = found(self, run, rev)
        inside = {each.agent for each in record.partly}
        missing = [name for name in record.missing if name not in inside]
        agents_in = record.agents_expected - len(missing)
        share = agents_in / record.agents_expected
        more = {"missing": missing, "agents_in": agents_in, "completeness": share}
        return msgspec.structs.replace(record, **more) if inside else record, payloads

    return instead("prefix-is-no-coverage", make)


def _same_peers() -> list[Patch]:
    """The peers of a member depend on the roster only."""
    found = original("silent-peer-is-replaced")

    def choose(self: Any) -> None:
        self._avoided.clear()
        found(self)

    return instead("silent-peer-is-replaced", choose)


def _same_roster() -> list[Patch]:
    """A plan changes, and the members have no new version of the roster to follow it from."""
    found = original("plan-with-a-new-roster")

    def upkeep(self: Any) -> bool:
        version = self._term.book.version
        changed = bool(found(self))
        self._term.book.version = version
        return changed

    return instead("plan-with-a-new-roster", upkeep)


SAFEGUARDS: dict[str, tuple[str, str, Callable[[], list[Patch]], Shape]] = {
    "chain-order": (
        "a delta is accepted only behind the one before it",
        "D-21",
        always(
            ("chain-order:standby", staticmethod(lambda chain, message: True)),
            ("chain-order:master", staticmethod(lambda chain, delta: True)),
        ),
        small(kinds.CRASH, job=JOB, hosts=4, trouble_s=3.0, poll_s=0.1, weather=REPEATING),
    ),
    "prefix-of-missing": (
        "a contribution of a member takes the place of its prefix",
        "D-21",
        always(("prefix-of-missing", staticmethod(lambda required, missing, inside: required))),
        DYING,
    ),
    "prefix-once": (
        "records that are inside in a prefix are not counted as expired",
        "D-21",
        always(("prefix-once", lambda counts, prefix: counts)),
        DYING,
    ),
    "sealed-ahead-is-not-due": (
        "what a member seals before its time, because its agent leaves at once, makes no interval due",
        "D-14",
        always(("sealed-ahead-is-not-due", lambda self, members: True)),
        DYING,
    ),
    "handed-over-before-the-end": (
        "an agent that leaves at once ends after copy hosts have what it has sealed",
        "D-8",
        always(("handed-over-before-the-end", lambda self, copy, hosts: True)),
        DYING,
    ),
    "second-way": (
        "the master asks missing members directly shortly before the deadline",
        "D-9",
        always(("second-way", lambda self, missing, at, trees: float("inf"))),
        DYING,
    ),
    "standby-elsewhere": (
        "a member chooses its standby in another failure domain, if an agent is in one",
        "D-21",
        always(("standby-elsewhere", lambda self, peer: (False, peer.port))),
        DYING,
    ),
    "earlier-chain-stays": (
        "the chain before stays until the new one has reached its time",
        "D-21",
        always(("earlier-chain-stays", lambda self, chains: chains.__delitem__(slice(None, -1)))),
        DYING,
    ),
    "chains-of-the-epoch": (
        "a standby answers for the members that the requesting master means by their numbers",
        "D-21",
        always(("chains-of-the-epoch", staticmethod(lambda terms, message: True))),
        DYING,
    ),
    "deltas-of-the-version": (
        "an interval has deltas of the version that evaluates it only",
        "D-16",
        always(("deltas-of-the-version", staticmethod(_any_version))),
        DYING,
    ),
    "prefix-ends-with-its-seal": (
        "what a member reads after it has sealed a window is not in the window's prefix",
        "D-21",
        always(("prefix-ends-with-its-seal", staticmethod(lambda first, interval: True))),
        DYING,
    ),
    "silent-peer-is-replaced": (
        "copies go to another peer if one acknowledges nothing",
        "D-8",
        _same_peers,
        DYING,
    ),
    "eviction-after-windows": (
        "a dead member is expected in every window that had begun when it died",
        "D-10",
        always(("eviction-after-windows", lambda self, frontier, at, since: at)),
        DYING,
    ),
    "plan-changes-for-a-gain": (
        "the plan of standbys changes only if that keeps more",
        "D-21",
        always(("plan-changes-for-a-gain", staticmethod(lambda has, would_have: True))),
        DYING,
    ),
    "plan-of-settled-rates": (
        "the plan of standbys waits while the load moves",
        "D-21",
        always(("plan-of-settled-rates", lambda self, scenarios, would_have: True)),
        DYING,
    ),
    "standbys-within-their-rate": (
        "a plan of standbys that costs more than its bytes per second is replaced",
        "D-21",
        always(("standbys-within-their-rate", lambda self, standbys: False)),
        DYING,
    ),
    "plan-is-inherited": (
        "the next master begins with the plan of standbys",
        "D-21",
        always(("plan-is-inherited", staticmethod(lambda began: None))),
        DYING,
    ),
    "prefix-is-no-coverage": (
        "a member of which an interval has a prefix is missing from it",
        "D-21",
        _covering,
        DYING,
    ),
    "weighed-by-rates": (
        "a missing member weighs what it usually contributes",
        "D-10",
        always(("weighed-by-rates", lambda self, members, at: dict.fromkeys(members, 1.0))),
        DYING,
    ),
    "share-of-a-prefix": (
        "a prefix counts for the share of its member's records that it has",
        "D-10",
        always(("share-of-a-prefix", lambda self, number, required, contributed, passed: 1.0)),
        DYING,
    ),
    "plan-with-a-new-roster": (
        "a changed plan of standbys is a new version of the roster, which all members follow",
        "D-21",
        _same_roster,
        DYING,
    ),
}
"""Names of the safeguards that tests take out, with what they are for."""
