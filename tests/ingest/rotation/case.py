"""The rows of the rotation matrix, and how one is entered.

One list for the tests and for the published table. Each case is a story told to a `Station`; `step` is a
moment at which the agent looks (and in the second run is killed and restarted).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.ingest.rotation.station import Station

Story = Callable[[Station], None]


@dataclass(frozen=True)
class Case:
    """One row.

    Attributes:
        name: what happens.
        story: as told to a station.
        lost: whole lines that no reader can read any more; in each mode, if that makes a difference (a crash
            takes what was read and not sealed, if it cannot be read again).
        prompt: whether it makes sense with hardly any LATENESS.
        buckets: records per bucket other than `contributed` and `source_gap`, likewise.
        gaps: how often source_gap counts, likewise.
        again: records that count twice, likewise.
        promise: for people.
        pattern: of the stream.
    """

    name: str
    story: Story
    promise: str = "exact"
    lost: int | tuple[int, int, int] = 0
    prompt: bool = True
    buckets: Mapping[str, int] | tuple[Mapping[str, int], ...] = field(default_factory=dict)
    gaps: int | tuple[int, int, int] = 0
    again: int | tuple[int, int, int] = 0
    pattern: str = "access.log"


CASES: list[Case] = []


def case(name: str, **kinds: object) -> Callable[[Story], Story]:
    """Enter a story into the list."""

    def enter(story: Story) -> Story:
        CASES.append(Case(name, story, **kinds))  # type: ignore[arg-type]  # the fields of Case
        return story

    return enter
