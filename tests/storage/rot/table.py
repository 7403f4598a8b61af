"""`python -m tests.storage.rot.table`: write the rot matrix into docs/reliability.md.

The rows are the cases that tests/agent/data_directory/test_examine.py runs; a test there compares the page.
"""

from __future__ import annotations

from pathlib import Path

from tests.reliability import PAGE, with_section
from tests.storage.rot.cases import CASES, Case
from tests.storage.rot.small import ARCHIVE, KAFKA, REFUSED
from tests.storage.rot.station import HOOK, LETTER, POSITIONS, SAVEPOINT

INTRODUCTION = f"""## Rot

What may happen to a file of a data directory while its agent does not run, what the agent does when it
starts, what is lost, and where that is declared. A test does each of it to real files: one bit in the head,
the length, the checksum and the body of the first, a middle and the last frame; the file cut, empty, filled
with zeros, replaced by another agent's, and by what it was before the last start. A damaged file is kept
beside as `*.damaged`. `elf check` finds what is marked with "check"
([check and repair](operations/backup-and-upgrade.md#check-and-repair)). Damage to results under a running
agent is found by the next read and ends alike; a frame that does not come back as it was written ends the
agent, which goes on as in these rows when it is started again. Lines in a spool have no checksum, like those
of any log, nor has `evaluating`, which is of no use once the agent has started. A token (`api.token`) that is
damaged is another token.

{len(CASES)} rows, written by `python -m tests.storage.rot.table`.

| file | damage | what the agent does | lost | declared |
|---|---|---|---|---|
"""


def shown(file: str) -> str:
    """A file's name as the page says it."""
    known = {
        KAFKA: "spool/STREAM/kafka.place",
        ARCHIVE: "archive/STREAM/host=NAME/_state.json",
        REFUSED: "sinks/SINK/JOB/*/N.json",
        LETTER: "dead-letter/JOB/N.partial",
        POSITIONS: "spool/STREAM/positions.log",
        HOOK: "sinks/SINK.positions/JOB/*",
        SAVEPOINT: "a savepoint",
    }
    ends = {".seg": "results/JOB/*.seg", ".page": "results/JOB/pages/*.page"}
    return known.get(file) or ends.get(Path(file).suffix) or file.replace("07" * 20, "JOB")


def row(case: Case) -> str:
    """One case as a line of the table."""
    declared = f"{case.declared}; check" if case.found else case.declared
    damages = "; ".join(case.damages)
    return f"| `{shown(case.file)}` | {damages} | {case.outcome} | {case.lost} | {declared} |"


def page(text: str) -> str:
    """A page with its section brought up to date, or added at the end."""
    return with_section(text, "rot", INTRODUCTION + "\n".join(map(row, CASES)))


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
