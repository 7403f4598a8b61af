"""Scenarios that showed a bug, by its name, each with all of its parameters: they run in the suite for ever.

A seed means another scenario as soon as something else is drawn from it. What it meant when it failed is kept
in `kept/NAME.json`: `python -m tests.sim.swarm --seed N --keep NAME` writes it, `--kept NAME` replays it.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.sim.swarm.scenario import Scenario, draw

KEPT = Path(__file__).parent / "kept"

REGRESSIONS: dict[str, str] = {
    "behind-in-a-rotated-file": "a job behind in a rotated file was united with one that had finished it:"
    " its records were lost. Later: what an interval was closed without counted once more after each restart",
    "blocks-across-a-restart": "blocks reached across what the frames had read before a restart: records were"
    " counted once more",
    "open-when-it-died": "what was read and open when an agent died, and closed without it, was in no bucket",
    "lost-by-a-failed-sync": "what a failed sync had lost read well until the power went, and the state log"
    " then stood damaged",
    "stale-word-of-a-deleted-job": "after a restart, a stale word of a deleted job began it again",
    "late-in-an-open-interval": "late records that were counted in an open interval were forgotten by a"
    " restart",
    "unsynced-at-a-power-cut": "the history counted a contribution that a power cut had taken before its"
    " sync, and once more what was read again",
    "slow-close": "a job that was deleted and applied again lost in its trees what its predecessor had"
    " closed, and waited a minute for it",
    "everything-twice": "a late copy of a delete reached who had obeyed it, was passed on to the job's next"
    " master, and ended the job",
    "remade-behind-the-closed": "an agent that heard late what was closed, together with the one version that"
    " follows, made closed intervals again by it",
    "the-only-version-left": "an agent that heard of one version only made again by it what the version"
    " before had sealed and others had closed",
    "undone-and-left-out": "the record that closes a version's last interval was held against the wrong"
    " version: the terms had left it out with this record",
    "frames-lost-by-a-failed-sync": "what a failed sync had lost of the frame log read well, was handed on by"
    " the next boot, and was a gap after a power cut",
    "resumed-by-a-superseded-master": "a master that another had followed a moment ago answered for a resume;"
    " the job stayed paused",
    "founded-beside-a-tombstone": "while all who voted on a deleted job were away, an agent that had just"
    " joined founded it again as a fleet of one",
    "epochs-led-twice": "a new incarnation was founded twice, by an agent that found no other and by one"
    " that had not joined yet: two registers, and an epoch with two masters",
    "deleted-by-who-had-given-up": "a delete waited at an agent until that had joined; its client gave up,"
    " asked another agent, had its answer and applied the job again: then the first one was obeyed",
    "silent-after-lost-disks": "after several lost disks no agent closed a job, and agents did not know it:"
    " not seen since the frame log is written again at each start",
    "changed-twice": "an undo was asked again under its number when the master that had made it was gone: its"
    " successor made it once more, and the version that was taken back came back",
    "errors-of-a-part": "a part of what was sealed together was annulled by two changes: bad lines of the"
    " part that stayed counted once more, because a replay read across where the interval had turned",
    "closed-behind-a-change": "what was closed was said to be empty by the version that followed: the member"
    " left it out, and with the gap everything it sealed from then on",
    "begun-behind-its-term": "a new master numbered a member from an interval before the one its worker had"
    " begun with: what it sealed never touched, and every interval waited a minute for it",
    "torn-by-the-dead": "who had been cut off was only in a collection that lacked the dead, whom only the"
    " one before had: each such interval waited a minute for who had said everything",
    "founded-when-most-had-left": "most agents had left for good: the others are no majority of those that"
    " were there, and found jobs five minutes later, as is promised; it was taken for one without agents",
    "notified-before-it-was-written": "what a step had wanted in front of an epoch's write went out, and the"
    " history took the epoch for told; a crash before the write made it unknown, as it may",
    "epoch-one-led-twice": "each agent that had heard of a job had lost its disk or was killed while it"
    " left, and no agent started that one again: the job's register was gone, which its judge did not know",
    "replay-takes-the-results": "a delete was refused because no agent led the job, and the client told so;"
    " when the job had been applied again, a late copy of the word was obeyed by who led it then",
    "no-agent-runs-it-afterwards": "the hosts that all others had for seeds had left: who was restarted found"
    " no peer, though it had met those that stayed; and votes were handed over only after the last intervals",
    "errors-of-two-boots": "a line without a time belonged to the interval of the newest record that its life"
    " had read; when its frame was annulled, a replay from farther back took it for a newer one's as well",
    "begun-by-an-older-version": "who had been away while a job changed its version four times, and was not"
    " elected, put the register's epoch over the terms it held, and handed them to members: the first version"
    " began again",
    "late-and-in-no-revision": "a worker heard from the versions it was to begin that an interval was closed,"
    " and dropped what came late for it; its judge did not know that it had been told",
    "lost-before-it-sealed": "an agent lost its disk before it had sealed anything: what it had read, and"
    " counted in an open interval as expired, was taken for read by the frame that says where the job begins",
    "records-of-an-earlier-incarnation": "who lacked records of a job that had been deleted and applied again"
    " was given those of before by an agent that still had their log, and handed them on as the new job's",
    "an-interval-that-lacks-all-members": "a master whose roster its successor lacked had numbered a member;"
    " the successor did from intervals before its worker's beginning, and trees held back what all had",
    "received-after-its-end": "what had been on its way to a paused agent since before its senders left"
    " made it"
    " take them for there, for ever: most of the fleet did not answer, and no agent founded a job any more",
    "wanted-before-it-was-written": "a record was taken for published as soon as its master wanted it"
    " appended behind the write of its own vote; the disk was full, nothing was told, and a crash took both",
    "ended-while-it-was-away": "who had missed a job's end, and was the closest to it, passed on every word"
    " to begin it again to a master that had left: a job that is over has no tree whose root would look",
    "rotated-between-two-boots": "a log that was not there when its job first looked, and was made and"
    " rotated while no agent worked on the job, was no part of it for the judge: what expired was too many",
    "passed-on-at-one-placement": "the closest agent to both placements of a job passed a word on at one"
    " and sent"
    " it back at the other as if it led there: its client asked again each time, and two updates made seven",
    "expected-without-its-disk": "who had lost its disk was expected for ever by its judge: the agent that"
    " came back without it was taken for the same one",
    "once-more-among-many-versions": "what came late for an interval that was closed with nothing of its"
    " agent became a pending correction at once, and once more when the agent said again, after a"
    " restart, what it had of it",
    "taken-back-while-it-was-written": "what a worker had sealed and not yet told when its job changed its"
    " version and back was taken for the next worker's, which made it again: one name, two contributions",
    "who-leads-is-never-asked": "a root that knew nothing of a job took an agent that was there for its"
    " master for ever, and never asked it; and where the job's end was known, a member still named a leader",
    "closed-by-two-masters": "a member was stopped while a master closed intervals without it, and went on in"
    " the next one's term: what it then sealed of those intervals was in no bucket",
    "updated-twice-by-two-masters": "a master was stopped behind an update that was chosen; its successor"
    " had passed the request on, had it asked for again, and made the update again over another one",
    "paused-by-a-superseded-master": "a master that another had followed took a pause for made, which was not"
    " confirmed; it led again, and answered the same request as if the job were paused",
    "filtered-below-the-first": "what members that joined late had filtered below their first intervals"
    " was in no bucket: only what they would have contributed became a pending correction",
    "late-below-the-first": "what came late for an interval without records below the first one of a member"
    " that had just joined was in no bucket: it waited for an interval that was settled already",
    "no-leader-after-lost-votes": "a deleted job was begun again by nearer agents; one of them had voted"
    " on its end, by a higher ballot than theirs, and its vote ended the new job as soon as it was told",
    "corrected-twice-after-a-rejoin": "an agent came back without its disk and missed two versions: its"
    " worker was"
    " begun again and said again what it had from before the agent's first interval, which counted each time",
    "final-that-lacks-records-of-its-master": "a roster that its successor never saw gave a member a late"
    " first interval, and the member counted its earlier records as expired; it became master, expected"
    " itself from the first interval on, and said that these intervals were empty: five FINAL records at"
    " completeness 1.0 lacked nine records",
    "record-where-none-was-promised": "two agents had found the ends of their frame logs damaged; a late copy"
    " of an update, whose client had no answer, began their workers again, and they declared the same losses"
    " again, in an interval in which no agent had anything",
    "records-in-no-bucket-of-one-agent": "a master that lacked the roster of its predecessor gave a member"
    " its number again from a later interval on: what the member had contributed below was in no bucket",
    "log-with-a-gap-between-records": "records that their log had no room for stood twice in the state log,"
    " and were put back once after a restart; their judge took them for added twice",
    "numbered-from-before-its-worker-began": "a master that lacked the roster of its predecessor numbered a"
    " member by a verdict, which does not name the first interval of a worker: the interval before it waited"
    " a minute for the member",
    "numbered-again-while-it-left": "a verdict from before its agent left arrived after it and gave the agent"
    " a second number: it contributed under that one, and its last intervals waited a minute for the first",
    "application-without-an-answer": "with slow disks, a copy of a request that only looks began a second"
    " search for the place of its job, and the request that named the answer of the first waited for it: its"
    " client had no answer within 20 s",
    "late-records-of-a-sealed-partition": "a member was inside one of three trees and named as missing, as is"
    " promised; the record that it had there kept a sealed partition open, which its judge took for ended",
    "counted-by-its-copy-and-again": "a new master knew no frontier yet, and numbered the new agent of a host"
    " that had lost its disk from two intervals after the last closed one; the copies of the host's former"
    " agent counted as well",
    "a-post-without-its-contribution": "a post was late that its member had for an interval that was closed"
    " without it; its judge expected late records of SEALED to be of ended partitions only",
    "numbered-again-and-its-disk-lost": "a member that a lost roster had numbered was numbered again, which"
    " annulled the interval in which it had counted ten expired records, and lost its disk 4 s later; its"
    " judge did not know that the next interval that it would have sealed was to count them",
    "away-by-a-cut-and-a-pause": "cuts and a pause kept an agent from its master for more than five minutes;"
    " its judge counted the pause alone",
    "counted-again-after-a-rest": "a host whose rule excluded a master forgot what it had read, and counted"
    " what it had contributed as expired when an agent inside led again",
}

OPEN: dict[str, str] = {}
"""Scenarios that fail, and why: the suite says when one of them does no longer."""

OPEN_SEEDS: tuple[int, ...] = ()
"""Seeds of the suite that mean a scenario of `OPEN` now."""


def keep(seed: int, name: str) -> Path:
    """Write what a seed means now."""
    path = KEPT / f"{name}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(draw(seed)), indent=1) + b"\n")
    return path


def scenario(which: int | str) -> Scenario:
    """That of a seed, or one that is kept under a name."""
    if isinstance(which, int):
        return draw(which)
    return msgspec.json.decode((KEPT / f"{which}.json").read_bytes(), type=Scenario)
