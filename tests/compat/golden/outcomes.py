"""What became of each golden query, and the lists of those that are not Spark's answer.

`documented.txt` says of which documented difference a case is: a line `KIND FILE N N N...`, where KIND is an
anchor of "Differences from Spark" in docs/elf-ql.md. `open.txt` says which are not put right yet:
`STATE FILE N N N...`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from elfmesh.errors import ElfError
from tests.compat.golden.compare import wrong_with
from tests.compat.golden.data import Golden, cases
from tests.compat.golden.poor import poor
from tests.compat.golden.run import answer

EQUAL, REFUSED, POOR, DOCUMENTED, WRONG, CRASHED = STATES = (
    "equal", "refused", "poor", "documented", "wrong", "crashed",
)  # fmt: skip
ANSWERED, BOTH_REFUSE, UNKNOWN = MORE_STATES = ("answered", "both refuse", "unknown input")
"""Of what Spark refuses: it is answered here, refused here too, or its input is not in the data."""

LISTS = Path(__file__).parent
DOCUMENTED_CASES, OPEN_CASES = LISTS / "documented.txt", LISTS / "open.txt"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case.

    Attributes:
        name: of the case.
        state: one of STATES or MORE_STATES.
        why: the message, what is wrong, or what was raised.
        kind: of a poor message or of a documented difference; of a crash the class.
    """

    name: str
    state: str
    why: str = ""
    kind: str = ""


def outcome(case: Golden) -> Outcome:
    """Run one case in this process."""
    if not case.accepted and case.reads_unknown:
        return Outcome(case.name, UNKNOWN)
    try:
        table = answer(case)
    except ElfError as error:
        kind = poor(case, error)
        if not case.accepted:
            return Outcome(case.name, BOTH_REFUSE, str(error), kind)
        return Outcome(case.name, POOR if kind else REFUSED, str(error), kind)
    except Exception as error:
        return Outcome(case.name, CRASHED, f"{type(error).__name__}: {error}", type(error).__name__)
    if not case.accepted:
        return Outcome(case.name, ANSWERED, case.error.splitlines()[0])
    wrong = wrong_with(case, table)
    if not wrong:
        return Outcome(case.name, EQUAL)
    kind = documented().get(case.name, "")
    return Outcome(case.name, DOCUMENTED if kind else WRONG, wrong, kind)


def outcomes(files: Iterable[str] | None = None) -> list[Outcome]:
    """What became of the cases of some files, or of all."""
    wanted = None if files is None else set(files)
    return [outcome(case) for case in cases() if wanted is None or case.file in wanted]


def listed(path: Path) -> dict[str, str]:
    """By case the first word of its line in a list."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        word, file, *numbers = line.split()
        found.update({f"{file}#{number}": word for number in numbers})
    return found


@cache
def documented() -> Mapping[str, str]:
    """By case the kind of its documented difference."""
    return listed(DOCUMENTED_CASES)


def as_list(named: Mapping[str, str]) -> str:
    """The text of a list: by case the first word of its line."""
    lines: dict[tuple[str, str], list[int]] = defaultdict(list)
    for name, word in named.items():
        file, _, number = name.rpartition("#")
        lines[word, file].append(int(number))
    return "".join(
        f"{word} {file} {' '.join(map(str, sorted(at)))}\n" for (word, file), at in sorted(lines.items())
    )


def table_of(found: Iterable[Outcome]) -> str:
    """Counts by file, and those of all."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for each in found:
        for file in (each.name.rpartition("#")[0], "all"):
            counts[file][each.state] += 1
    counts["all"] = counts.pop("all", Counter())
    heads = (*STATES, *MORE_STATES)
    width = max(map(len, counts))
    lines = [" ".join([f"{'file':{width}}", *(f"{head:>{len(head) + 1}}" for head in heads)])]
    for file, row in counts.items():
        lines.append(" ".join([f"{file:{width}}", *(f"{row[head]:>{len(head) + 1}}" for head in heads)]))
    return "\n".join(lines)
