"""The rows of the rot matrix: file, damage, what the agent does, what is lost, where that is declared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.storage.rot.small import ARCHIVE, AUDIT, DEATHS, FUNCTIONS, HEAD, KAFKA, PAGE, REFUSED
from tests.storage.rot.station import (
    HOOK,
    LETTER,
    POSITIONS,
    RESULTS,
    SAVEPOINT,
    Change,
    in_frames,
)

SEGMENT = f"{RESULTS}/+0000000000000000000.seg"
META = f"{RESULTS}/meta"


@dataclass(frozen=True, slots=True)
class Case:
    """One row.

    Attributes:
        file: its name in the data directory.
        damages: of `DAMAGES`, those that end alike.
        outcome: what `station.start` finds.
        lost: for people.
        declared: for people.
        error: whether the agent logs an error, or does not start, with the file's path.
        found: whether `elf check` finds it.
    """

    file: str
    damages: tuple[str, ...]
    outcome: str
    lost: str
    declared: str
    error: bool = True
    found: bool = True


ONE_BIT, LAST_BIT, CUT, EMPTY, ZEROS, OTHER, OLDER = DAMAGES = (
    "one bit, of a frame that others follow",
    "one bit, of the last frame",
    "cut within the last frame",
    "empty",
    "zeros",
    "another agent's file",
    "its own older version",
)


def changes(file: str, damage: str) -> Iterator[tuple[str, Change]]:
    """The ways in which a row's damage is done."""
    match damage:
        case "one bit, of a frame that others follow":
            yield from in_frames(file, last=False)
        case "one bit, of the last frame":
            yield from in_frames(file, last=True)
        case "cut within the last frame":
            yield "cut", lambda data: data[:-9]
        case "empty":
            yield "empty", lambda data: b""
        case "zeros":
            yield "zeros", lambda data: bytes(len(data))
        case _:
            yield damage, lambda data: data  # another file's content, put there by the test


BITS = (ONE_BIT, LAST_BIT)
LOG = "the agent's log at ERROR"
NOWHERE = "nowhere: the file is whole, and only older, or ends as after a crash"
CASES = (
    Case("id", (*BITS, CUT, EMPTY, ZEROS), "uses all", "nothing: the id is taken from the state log", LOG),
    Case(
        "id", (OTHER,), "does not vote", "votes and contributions, which are another agent's", f"{LOG}, `why`"
    ),
    Case("id", (OLDER,), "uses all", "nothing", "nowhere", error=False, found=False),
    Case(
        "state.log",
        (*BITS, EMPTY, ZEROS, OTHER, OLDER),
        "does not vote",
        "the votes, until the masters have replaced them",
        f"{LOG}, `elf describe agent`, `why`",
    ),
    Case("state.log", (CUT,), "uses what is left", "the newest change", NOWHERE, error=False, found=False),
    Case(
        "frames.log",
        BITS,
        "declares a gap",
        "the frame's contributions, unless their lines can be read again",
        f"`source_gap` of the jobs, {LOG}",
    ),
    Case(
        "frames.log",
        (CUT,),
        "uses what is left",
        "nothing: its lines are read again",
        NOWHERE,
        error=False,
        found=False,
    ),
    Case(
        "frames.log",
        (OLDER,),
        "uses what is left",
        "nothing: its lines are read again",
        NOWHERE,
        error=False,
        found=False,
    ),
    Case(
        "frames.log",
        (EMPTY, ZEROS, OTHER),
        "begins again",
        "what was not closed, of files that were rotated away since",
        f"`source_gap` of the jobs, {LOG}",
    ),
    Case(
        SEGMENT,
        (*BITS, CUT, OTHER),
        "fetches what lacks",
        "nothing that another voter has",
        f"{LOG}; a record that no voter has: a `SKIPPED` record with a `reason`",
    ),
    Case(SEGMENT, (EMPTY, ZEROS), "fetches all", "nothing that another voter has", "as above"),
    Case(
        SEGMENT,
        (OLDER,),
        "fetches what lacks",
        "nothing that another voter has",
        "as above, once it lacks by its vote",
        error=False,
    ),
    Case(META, (*BITS, CUT, EMPTY, ZEROS), "uses all", "nothing: there are two copies", LOG),
    Case(META, (OTHER, OLDER), "uses all", "nothing: the newer copy counts", "nowhere", error=False),
    Case(
        LETTER,
        (*BITS, CUT, EMPTY, ZEROS),
        "leaves it alone",
        "what is in it; its records are counted as `expired`",
        "the agent's log",
    ),
    Case(
        LETTER,
        (OTHER, OLDER),
        "uses all",
        "nothing",
        "nowhere: a letter names its agent and job",
        error=False,
        found=False,
    ),
    Case(
        HOOK,
        (*BITS, CUT, EMPTY, ZEROS),
        "waits",
        "nothing: `elf repair` lets the sink begin again",
        "health, `sinks`",
    ),
    Case(
        HOOK,
        (OTHER, OLDER),
        "uses what is there",
        "nothing by an older one: records are sent again under the same keys",
        "nowhere",
        error=False,
        found=False,
    ),
    Case(
        SAVEPOINT,
        (*BITS, CUT, EMPTY, ZEROS),
        "is refused",
        "nothing",
        "the error of the command",
        found=False,
    ),
    Case(SAVEPOINT, (OTHER, OLDER), "uses all", "nothing", "nowhere: it is whole", error=False, found=False),
    Case(
        POSITIONS,
        (*BITS, EMPTY, ZEROS),
        "does not start",
        "nothing: `elf repair` goes on without the damaged lines, and says what may be taken twice",
        "the error that ends the agent",
    ),
    Case(
        POSITIONS,
        (CUT, OTHER, OLDER),
        "forgets",
        "that some inserts were taken: inserted again, they count twice",
        NOWHERE,
        error=False,
        found=False,
    ),
    Case(PAGE, (*BITS, CUT, EMPTY, ZEROS), "fetches it", "nothing that another voter has", LOG),
    Case(
        PAGE,
        (OTHER, OLDER),
        "uses all",
        "nothing: its name is its checksum",
        "nowhere",
        error=False,
        found=False,
    ),
    Case(
        KAFKA,
        (*BITS, CUT, EMPTY, ZEROS),
        "waits",
        "nothing: `elf repair` reads the topic from where the stream says",
        "the agent's log, `elf describe agent`",
    ),
    Case(
        KAFKA,
        (OLDER,),
        "uses what is there",
        "nothing: messages are read again, and count twice",
        LOG,
    ),
    Case(
        KAFKA,
        (OTHER,),
        "uses what is there",
        "messages may be read twice or be left out",
        f"{LOG} and check, unless the lengths of the spools agree",
        error=False,
        found=False,
    ),
    Case(
        ARCHIVE,
        (*BITS, CUT, EMPTY, ZEROS),
        "does not start",
        "nothing: `elf repair` sets the archive aside, and another begins",
        "the error that ends the agent",
    ),
    Case(
        ARCHIVE,
        (OLDER,),
        "reads again",
        "rows whose lines have gone meanwhile; one that is older by more than one file is refused",
        "`gaps` of the archive",
        error=False,
        found=False,
    ),
    Case(
        ARCHIVE,
        (OTHER,),
        "uses what is there",
        "nothing: lines are archived again",
        "nowhere",
        error=False,
        found=False,
    ),
    Case(
        FUNCTIONS,
        (*BITS, CUT, EMPTY, ZEROS),
        "does not start",
        "nothing: `elf repair` forgets the serials of signed versions",
        "the error that ends the agent",
    ),
    Case(
        FUNCTIONS,
        (OTHER, OLDER),
        "uses what is there",
        "serials that it lacks: an older signed version is admitted again",
        "nowhere: it is whole",
        error=False,
        found=False,
    ),
    Case(DEATHS, (*BITS, CUT, EMPTY, ZEROS), "counts again", "that a job ended the agent", LOG),
    Case(
        DEATHS,
        (OTHER, OLDER),
        "uses what is there",
        "as above",
        "nowhere: it is whole",
        error=False,
        found=False,
    ),
    Case(
        AUDIT,
        (ONE_BIT,),
        "uses all",
        "nothing: who did what can be read up to the line, and behind it",
        "`elf audit verify`",
        error=False,
    ),
    Case(
        AUDIT,
        (LAST_BIT, CUT, EMPTY, ZEROS, OTHER, OLDER),
        "does not start",
        "nothing: `elf repair` begins another log",
        "the error that ends the agent",
    ),
    Case(
        HEAD,
        (*BITS, CUT, EMPTY, ZEROS, OTHER),
        "does not start",
        "nothing: `elf repair` moves it away",
        "the error that ends the agent",
    ),
    Case(HEAD, (OLDER,), "uses all", "nothing", "nowhere: it follows the log", error=False, found=False),
    Case(
        REFUSED,
        (*BITS, CUT, EMPTY, ZEROS),
        "leaves it alone",
        "what is in it; the record is in the results",
        "nowhere",
        error=False,
    ),
    Case(
        REFUSED,
        (OTHER, OLDER),
        "leaves it alone",
        "nothing",
        "nowhere: it is whole",
        error=False,
        found=False,
    ),
)
