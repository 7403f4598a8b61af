"""Safeguards of the product, each removable for a test: what the simulator must notice.

Owns one line per safeguard: what it is, and how the product behaves without it. Every removal replaces, for
one run, what the product declares under that name (`elfmesh.safeguards`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import msgspec

from elfmesh.srt import coverage
from elfmesh.storage import frames
from tests.sim.swarm import scenario as kinds
from tests.sim.swarm.ablations import control, disk, early, late, members, rot, standby, topics, votes
from tests.sim.swarm.ablations import trees as ablations_trees
from tests.sim.swarm.ablations.names import Patch, always, instead, original, with_options
from tests.sim.swarm.ablations.trees import Trees
from tests.sim.swarm.scenario import Scenario, draw
from tests.sim.swarm.shapes import AWAY, LOSSY, REPEATING, Shape, lines, losing, small

CALM = small()
SAFEGUARDS = {
    **late.SAFEGUARDS,
    **members.SAFEGUARDS,
    **votes.SAFEGUARDS,
    **rot.SAFEGUARDS,
    **early.SAFEGUARDS,
    **topics.SAFEGUARDS,
    **standby.SAFEGUARDS,
}
ELSEWHERE = {
    **late.ELSEWHERE,
    **members.ELSEWHERE,
    **votes.ELSEWHERE,
    **early.ELSEWHERE,
    **topics.ELSEWHERE,
    **standby.ELSEWHERE,
}


@dataclass(frozen=True)
class Ablation:
    """One safeguard.

    Attributes:
        what: the safeguard, in words.
        promise: of the guarantees, that it serves.
        patches: what is replaced by its absence; called again for every run.
        shape: what a seed is asked: its scenario with what the safeguard is there for, and little else.
        trees: what a seed is asked instead, where only the trees' own promise rests on it.
        elsewhere: the test that notices its absence, where the simulator has not what it is there for.
    """

    what: str
    promise: str
    patches: Callable[[], list[Patch]]
    shape: Shape = CALM
    trees: Trees | None = None
    elsewhere: str = ""

    def asked(self, seed: int) -> Scenario:
        """What a seed is asked."""
        return self.shape(draw(seed))


def nothing(*_: Any, **__: Any) -> None:
    """Instead of a safeguard."""


def _restart(name: str, positions: Callable[[frames.Sealed], Any]) -> list[Patch]:
    """A restart reads from elsewhere."""
    found = original(name)

    def begin(self: Any, stream: Any) -> Any:
        if self._last is not None:
            self._last = msgspec.structs.replace(self._last, restart=positions(self._last))
        return found(self, stream)

    return instead(name, begin)


def _any_version(stages: Any, evaluated: int, start: int, stop: int) -> int:
    """What was sealed counts, whichever version evaluated it."""
    return stop


def _unfinished_lines(self: Any, chunk: bytes) -> bytes:
    self.taken += len(chunk)
    return chunk


def _no_lateness() -> list[Patch]:
    found = original("lateness")

    def init(self: Any, lateness_us: int = 0, **options: Any) -> None:
        found(self, 0, **options)

    return instead("lateness", init)


DYING = small(kinds.CRASH, kinds.FAILPOINT, trouble_s=2.0)
DARK = small(kinds.POWER, kinds.FAILPOINT, trouble_s=2.0)
DEEP = small(kinds.CRASH, hosts=7, fanout=2, trouble_s=2.0)
TORN_TREES = small(
    kinds.LINKS, hosts=10, fanout=2, trouble_s=1.0, job={"straggler": "wait", "slide_s": 1, "size_s": 1}
)
"""Deep trees whose agents change their parents all the time, in the term of one master."""

SEALED_JOB = {"sealed": "1", "ids": True}

REGISTRY: dict[str, Ablation] = {
    "replay-boundary": Ablation(
        "what was counted before a restart is not counted again",
        "D-1",
        lambda: with_options("replay-boundary", read_up_to=()),
        shape=DYING,
    ),
    "restart-offsets": Ablation(
        "a restart reads on where the last frame says",
        "D-1",
        lambda: _restart("restart-offsets", lambda last: ()),
        shape=DYING,
    ),
    "open-panes": Ablation(
        "a restart reads what is not sealed once more",
        "D-1",
        lambda: _restart("open-panes", lambda last: last.positions or last.restart),
        shape=DYING,
    ),
    "sync-before-send": Ablation(
        "frames are synced before they are handed on",
        "D-1",
        always(("sync-before-send", nothing)),
        shape=DARK,
    ),
    "write-before-send": Ablation(
        "frames are written before they are handed on",
        "D-1",
        always(("write-before-send", disk.given_before_written)),
        shape=DYING,
    ),
    "failed-sync": Ablation(
        "a failed sync ends the agent",
        "D-1",
        disk.failed_sync_ignored,
        shape=small(kinds.FAILED_SYNC, kinds.POWER, trouble_s=2.0),
    ),
    "say-again": Ablation(
        "a restart hands on what is not closed",
        "D-8",
        disk.no_frames_reported_again,
        shape=DYING,
    ),
    "keep-until-closed": Ablation(
        "frames are kept until their interval is closed",
        "D-8",
        always(("keep-until-closed", lambda self, job: iter(()))),
        shape=DYING,
    ),
    "closed-before-sealed": Ablation(
        "what was closed before it was sealed is counted",
        "D-15",
        always(("closed-before-sealed", control.closed_is_not_sealed)),
        shape=AWAY,
    ),
    "torn-tail": Ablation(
        "a torn frame is cut off before the next is written",
        "D-1",
        always(("torn-tail", nothing)),
        shape=small(kinds.FULL_DISK, kinds.CRASH, kinds.JOB_UPDATE, trouble_s=2.0),
    ),
    "frame-checksum": Ablation(
        "a frame's checksum is checked",
        "D-1",
        always(("frame-checksum", lambda data: 0)),
        shape=small(kinds.BIT_FLIP, trouble_s=2.0),
    ),
    "damage-once": Ablation(
        "a job that begins again does not declare the same damage again",
        "D-1",
        disk.damage_declared_at_each_beginning,
        elsewhere="tests/storage/test_framelog_rot.py",
    ),
    "effects-wait": Ablation(
        "what follows a write waits for it",
        "D-1",
        disk.effects_do_not_wait,
        shape=small(kinds.POWER, kinds.FAILPOINT, trouble_s=2.0, store_s=0.3),
    ),
    "atomic-write": Ablation(
        "state is replaced by a synced file, never in place",
        "D-1",
        always(("atomic-write", disk.write_in_place)),
        shape=DARK,
    ),
    "put-back": Ablation(
        "records that a power cut takes from their log are put back",
        "D-17",
        always(("put-back", nothing)),
        shape=DARK,
    ),
    "whole-lines": Ablation(
        "only finished lines are records",
        "D-2",
        always(("whole-lines", _unfinished_lines)),
        shape=lines(small(), torn=0.1),
    ),
    "incarnation": Ablation(
        "frames of a deleted job are not those of the next",
        "D-16",
        always(("incarnation", staticmethod(lambda job, incarnation: f"{job.hex()}:"))),
        shape=small(kinds.JOB_CHANGE, kinds.CRASH, trouble_s=2.0),
    ),
    "version-fence": Ablation(
        "what another version has evaluated is made again",
        "D-16",
        always(("version-fence", _any_version)),
        shape=small(kinds.JOB_UPDATE, kinds.CRASH, trouble_s=2.0),
    ),
    "epoch-fence": Ablation(
        "what comes from a lower epoch is refused",
        "D-5",
        always(("epoch-fence", lambda *_: True)),
        shape=small(kinds.ISOLATE_MASTER, kinds.PAUSE, trouble_s=2.0),
    ),
    "epoch-on-disk": Ablation(
        "the highest epoch is remembered",
        "D-5",
        always(("epoch-on-disk", control.epoch_forgotten)),
        shape=small(kinds.CRASH, kinds.ISOLATE_MASTER, trouble_s=2.0),
    ),
    "duplicates": Ablation(
        "what is counted is not counted again",
        "D-7",
        lambda: control.blind("duplicates", coverage.PartialOverlap.DUPLICATE),
        shape=small(weather=REPEATING),
    ),
    "disjoint-merge": Ablation(
        "only disjoint coverages are merged",
        "D-7",
        control.overlaps_merged,
        trees=ablations_trees.partitions,
    ),
    "retransmit": Ablation(
        "what is not acknowledged is sent again",
        "D-7",
        control.sent_once,
        shape=small(hosts=7, fanout=2, weather=LOSSY),
    ),
    "shelf": Ablation(
        "a new parent gets what the last one got",
        "D-7",
        always(("shelf", lambda self: iter(()))),
        shape=DEEP,
    ),
    "repair": Ablation(
        "what overlaps or was lost on the way is collected again",
        "D-7",
        always(("repair:trees", nothing), ("repair:root", nothing)),
        shape=TORN_TREES,
    ),
    "watermark": Ablation(
        "an interval is sealed once the watermark has passed it",
        "D-12",
        always(("watermark", property(lambda self: self.end_index))),
        shape=small(),
    ),
    "lateness": Ablation(
        "the watermark stays behind by the lateness",
        "D-12",
        _no_lateness,
        shape=lines(small(job={"lateness_s": 2}), disorder_s=1.6),
    ),
    "clock-lag": Ablation(
        "the clock alone closes intervals a moment late",
        "D-12",
        always(("clock-lag", lambda lateness_us: lateness_us)),
        shape=lines(small(clock_offset_s=0.2), writing_s=kinds.WRITING_S),
    ),
    "future": Ablation(
        "a time far ahead is an error",
        "D-12",
        lambda: with_options("future", max_future_us=None),
        shape=lines(small(job={"lateness_s": 2}), future=0.05, disorder_s=1.6),
    ),
    "roster-ahead": Ablation(
        "a new member starts above the frontier",
        "D-14",
        always(("roster-ahead", lambda frontier: frontier - 2)),
        shape=small(kinds.JOIN, kinds.NEW_DISK),
    ),
    "completeness": Ablation(
        "the root waits for the roster",
        "D-6",
        always(("completeness", lambda self, interval: 0)),
        shape=small(kinds.CRASH),
    ),
    "tombstone": Ablation(
        "a deleted job is not led again",
        "D-16",
        control.led_after_its_end,
        shape=small(kinds.JOB_CHANGE, kinds.CRASH, kinds.PARTITION, trouble_s=1.5, hosts=4),
    ),
    "multicast-retry": Ablation(
        "a multicast is repeated until it is acknowledged",
        "D-16",
        always(("multicast-retry", lambda tries: 1e9)),
        shape=small(kinds.JOB_UPDATE, weather=LOSSY),
    ),
    "multicast-latecomers": Ablation(
        "who joins a tree gets what was said",
        "D-16",
        always(("multicast-latecomers", nothing)),
        trees=ablations_trees.latecomers,
    ),
    "append-once": Ablation(
        "a record is appended once",
        "D-17",
        control.appended_again,
        shape=small(kinds.CRASH, kinds.POWER, trouble_s=2.0),
    ),
    "kept-copies": Ablation(
        "what peers keep of a lost agent is asked for",
        "D-8",
        always(("kept-copies", lambda self, missing, start, **_: float("-inf"))),
        shape=losing(hosts=5, racks=2, job={"replicas": 1}),
    ),
    "open-groups": Ablation(
        "a new master goes on with the groups that are open between intervals",
        "D-6",
        always(("open-groups", nothing)),
        shape=small(kinds.CRASH, kinds.ISOLATE_MASTER, trouble_s=2.0, job=SEALED_JOB | {"sealed": "2"}),
    ),
    "groups-in-turn": Ablation(
        "an interval continues the groups that the interval before it leaves open",
        "D-6",
        always(("groups-in-turn", lambda order, before: order)),
        elsewhere="tests/agent/runtime/test_compute_threads.py",
    ),
    "groups-in-making": Ablation(
        "an interval in which groups may end is not passed while it is unknown which are open",
        "D-6",
        always(("groups-in-making", nothing)),
        elsewhere="tests/control/closing/test_interval_closer.py",
    ),
    "all-seals": Ablation(
        "a partition ends with the seal of its last producer",
        "D-6",
        always(("all-seals", control.one_seal_less)),
        shape=small(job=SEALED_JOB | {"sealed": "2"}),
    ),
    "ended-partitions": Ablation(
        "records of a partition that has ended are late",
        "D-12",
        always(("ended-partitions", lambda ended, at_us: None)),
        shape=small(job=SEALED_JOB),
    ),
    "as-it-was-seen": Ablation(
        "a request changes only what its client has seen",
        "D-16",
        always(
            ("as-it-was-seen:master", lambda seen, there, names: True),
            ("as-it-was-seen:tombstone", lambda over, seen: True),
        ),
        shape=small(kinds.JOB_CHANGE, kinds.CRASH, trouble_s=1.0, weather=LOSSY, replay=True),
    ),
    "met-before": Ablation(
        "who is restarted joins through those it had met",
        "D-15",
        always(("met-before", lambda self: ())),
        shape=small(kinds.JOIN, kinds.LEAVE, kinds.CRASH, trouble_s=3.0, safety_s=90.0),
    ),
    "farewells": Ablation(
        "who has left in order counts no more among those that found a job",
        "D-4",
        always(("farewells", nothing)),
        shape=small(kinds.JOIN, kinds.LEAVE, kinds.JOB_CHANGE, trouble_s=3.0, safety_s=90.0, hosts=5),
    ),
    **{name: Ablation(*each, elsewhere=ELSEWHERE.get(name, "")) for name, each in SAFEGUARDS.items()},
}
"""By name. What each costs to find stands in docs/reliability.md."""


@contextlib.contextmanager
def without(name: str | None) -> Iterator[None]:
    """Run without a safeguard; with all of them if `name` is None."""
    with contextlib.ExitStack() as stack:
        for owner, attribute, value in REGISTRY[name].patches() if name else ():
            stack.enter_context(mock.patch.object(owner, attribute, value))
        yield
