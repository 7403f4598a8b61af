"""`python -m tests.ingest.rotation.table`: write the rotation matrix into docs/reliability.md.

The rows are the cases that tests/ingest/test_rotation.py runs; a test there holds the page to them.
"""

from __future__ import annotations

from tests.ingest.rotation.cases import CASES, Case
from tests.reliability import PAGE, with_section

INTRODUCTION = f"""## Rotation

What may happen to a log, and where its records end. A test runs every row on real files, three times: an
agent that goes on; one that is killed and started again at every step with nothing sealed since its
beginning; one that is killed with everything sealed. No record may be counted twice in any of them, and every
record that is in no result must be lost by the number and declared by the bucket given here ("a / b / c"
where the three differ: what was read and not sealed when an agent dies is read again, if it is still there).

{len(CASES)} rows, written by `python -m tests.ingest.rotation.table`.

| what happens | outcome | records lost | `source_gap` |
|---|---|---|---|
"""


def numbers(value: int | tuple[int, int, int]) -> str:
    """One number, or one for each of the three runs."""
    return str(value) if isinstance(value, int) else " / ".join(map(str, value))


def row(case: Case) -> str:
    """One case as a line of the table."""
    return f"| {case.name} | {case.promise} | {numbers(case.lost)} | {numbers(case.gaps)} |"


def page(text: str) -> str:
    """A page with its section brought up to date, or added at the end."""
    return with_section(text, "rotation", INTRODUCTION + "\n".join(map(row, CASES)))


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
