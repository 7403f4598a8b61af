"""`python -m tests.compat.page`: run other systems' cases and write docs/compatibility.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.compat import arroyo, ekuiper, fluentbit, nexmark, risingwave, vrl_formats, vrl_functions
from tests.compat.cases import FAILING, NOT_APPLICABLE, PASSED, Ours, Outcome, Translation, outcomes

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
STATES = (PASSED, NOT_APPLICABLE, FAILING)

INTRODUCTION = """# Compatibility

Cases of other systems, with their inputs and the answers that their authors expect, asked in ELF-QL. Each is
written down in ELF-QL's own words, run by the embedded engine, and its rows must be those of the case: all of
them, and nothing else; in order where the case orders them, numbers to the last digit of a double. A test
runs them and holds this page to the outcome. A dozen run on four agents, too, with the records of each
stream dealt out among them. Written by `python -m tests.compat.page`.

*Not applicable* is what means nothing here, with the reason. *Failing* is what ELF-QL should answer and does
not: a case that is listed so and passes is an error, too.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Peer:
    """Another system.

    Attributes:
        title: how the page calls it.
        about: what its cases are, in sentences.
        run: what became of its cases.
        shown: queries that the page has, by case.
    """

    title: str
    about: str
    run: Callable[[], list[Outcome]]
    shown: Mapping[str, Translation] = field(default_factory=dict)


def vector() -> list[Outcome]:
    """Log formats by our parsers, everything else by our expressions."""
    return vrl_formats.outcomes() + outcomes(vrl_functions.cases, vrl_functions.translation)


PEERS = (
    Peer(
        "Nexmark",
        "Queries q0 to q9 over 110 events of an auction site; the answers are those of RisingWave's tests "
        "(Apache-2.0).",
        partial(outcomes, nexmark.cases, nexmark.TRANSLATIONS.__getitem__),
        shown=nexmark.TRANSLATIONS,
    ),
    Peer(
        "RisingWave",
        "Streaming SQL: aggregates, the top n of each group, time windows, UNION (e2e_test/streaming, "
        "Apache-2.0). A materialised view is here one query over a log with all that was inserted.",
        partial(outcomes, risingwave.cases, risingwave.TRANSLATIONS.__getitem__),
    ),
    Peer(
        "Arroyo",
        "SQL over two recorded streams (crates/arroyo-sql-testing, Apache-2.0 or MIT).",
        partial(outcomes, arroyo.cases, arroyo.TRANSLATIONS.__getitem__),
        shown=arroyo.TRANSLATIONS,
    ),
    Peer(
        "eKuiper",
        "Rules that answer record by record, with running state (internal/topo/topotest, Apache-2.0). Their "
        "messages one after the other must be the rows of our one interval, ordered by time.",
        partial(outcomes, ekuiper.cases, ekuiper.TRANSLATIONS.__getitem__),
    ),
    Peer(
        "Fluent Bit",
        "The stream processor's queries over eleven records (tests/internal, Apache-2.0): the number of "
        "rows, and some of their values. A key that is not there is not null in Fluent Bit; it is in ELF-QL, "
        "so the queries ask for the key where it matters.",
        partial(outcomes, fluentbit.cases, fluentbit.TRANSLATIONS.__getitem__),
    ),
    Peer(
        "Vector",
        "The examples of VRL's reference (docs/generated, MPL-2.0): its parsers of log formats that are ours "
        "by our parsers, where a field is text unless its format says more; its functions as expressions. An "
        "object is a record whose fields are columns, and a list of objects is a row for each. What is an "
        "error there is null here, refused, or counted as a `parse_error`.",
        vector,
    ),
)


def page(found: dict[str, list[Outcome]]) -> str:
    """The page for these outcomes by title of the peer."""
    together = [each for outcomes in found.values() for each in outcomes]
    rows = [
        f"| {title} | {len(each)} | {counted(each)} |" for title, each in (*found.items(), ("all", together))
    ]
    head = [f"| | cases | {' | '.join(STATES)} |", "|---|---|---|---|---|", *rows, ""]
    return "\n".join((INTRODUCTION, *head, *(section(peer, found[peer.title]) for peer in PEERS)))


def counted(outcomes: Sequence[Outcome]) -> str:
    """How many of each state, as cells."""
    counts = Counter(each.state for each in outcomes)
    return " | ".join(str(counts[state]) for state in STATES)


def section(peer: Peer, outcomes: Sequence[Outcome]) -> str:
    """A peer's part: why cases are not passed, what each became, and its queries if they are shown."""
    groups: dict[tuple[str, str], list[str]] = {}
    for each in sorted(outcomes, key=lambda each: STATES.index(each.state)):
        groups.setdefault((each.state, each.why), []).append(each.name)
    lines = [f"| {state} | {why} | {len(names)} | {which(names)} |" for (state, why), names in groups.items()]
    parts = [
        f"## {peer.title}\n\n{peer.about}\n",
        "| outcome | why | cases | which |",
        "|---|---|---|---|",
        *lines,
    ]
    states = {each.name: each.state for each in outcomes}
    parts += [query(name, states[name], each) for name, each in peer.shown.items()]
    return "\n".join(parts) + "\n"


def which(names: Sequence[str]) -> str:
    """Names of cases; those of one function (`abs: of an integer`) as their number."""
    counts = Counter(name.partition(": ")[0] for name in names)
    return ", ".join(name if number == 1 else f"{name} ({number})" for name, number in counts.items())


def query(name: str, state: str, translation: Translation) -> str:
    """A case's query as a block."""
    if not isinstance(translation, Ours):
        return ""
    heading = name if state == PASSED else f"{name}: {state}"
    return f"\n**{heading}**\n\n```\n{translation.text}\n```"


if __name__ == "__main__":
    PAGE.write_text(page({peer.title: peer.run() for peer in PEERS}))
