"""The options of the Spark data source, checked, and the shares of a read that follow from them.

Reads no results and asks no agent.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import InputPartition

from elfmesh.errors import ConfigError
from elfmesh.spark_bridge.joblog import BAD_OPTION
from elfmesh.text import nearest

NAMES = (
    *("job", "api", "state", "view", "startingInterval", "endInterval", "maxIntervalsPerTrigger"),
    *("numPartitions", "longPoll", "schemaWait"),
)
"""The options of the source. Spark compares them without case, and passes them in lower case."""

LONG_POLL_S = 1.0
"""How long a request for new intervals may wait, so that an idle stream does not spin and a new interval is
not delayed."""


@dataclass(frozen=True)
class IntervalPartition(InputPartition):  # type: ignore[misc]  # mypy skips PySpark
    """Share of one task: the intervals in `(after, upto]`.

    Attributes:
        after: interval before the first one.
        upto: last interval.
        turn: number of the agent that is asked first.
        revision: tentative results newer than this are wanted; None: no tentative results.
        only: wanted states; None: all.
        incarnation: incarnation for which the read was planned; "" if unknown.
    """

    after: int
    upto: int
    turn: int = 0
    revision: int | None = None
    only: frozenset[str] | None = None
    incarnation: str = ""


@dataclass(frozen=True)
class Options:
    """The checked options of a reader. Spark's option names are in camel case."""

    start: str
    end: int | None
    limit: int | None
    partitions: int
    long_poll_s: float

    @classmethod
    def of(cls, options: Any, default_start: str, agents: int = 1) -> Options:
        """Check `options`, Spark's case-insensitive mapping of strings.

        By default each named agent gets a task.

        Raises:
            ConfigError: the value of an option is invalid.
        """
        start = str(options.get("startingInterval", default_start)).lower()
        if start not in ("earliest", "latest"):
            _integer(options, "startingInterval")
        limit = _integer(options, "maxIntervalsPerTrigger", low=1)
        return cls(
            start=start,
            end=_integer(options, "endInterval"),
            limit=limit,
            partitions=_integer(options, "numPartitions", low=1) or agents,
            long_poll_s=seconds(options, "longPoll", LONG_POLL_S),
        )

    def first(self, *, earliest: int, latest: int) -> int:
        """Return the first interval to read, given the meaning of "earliest" and "latest"."""
        named = {"earliest": earliest, "latest": latest}
        return named[self.start] if self.start in named else int(self.start)

    def ranges(self, after: int, upto: int, earliest: int) -> list[IntervalPartition]:
        """Divide `(after, upto]` into at most `partitions` ranges.

        The ranges have about equal lengths from `earliest` on.
        """
        if after >= upto:
            return []
        floor = min(max(after, earliest - 1), upto - 1)
        count = min(self.partitions, upto - floor)
        # The first range begins at `after`, so that the agent reports if an interval before `earliest`
        # expired.
        cuts = [after, *(floor + (upto - floor) * i // count for i in range(1, count + 1))]
        return [
            IntervalPartition(low, high, turn) for turn, (low, high) in enumerate(itertools.pairwise(cuts))
        ]


def check_names(options: Iterable[str]) -> None:
    """Check the names of options.

    Raises:
        ConfigError: a name is not that of an option.
    """
    known = {name.lower(): name for name in NAMES}
    for given in options:
        if given.lower() not in known:
            near = nearest(given.lower(), known)
            hint = f"Did you mean {known[near]}?" if near else f"The options are {', '.join(NAMES)}."
            raise ConfigError(f"{BAD_OPTION}: {given} is not an option of the source elf. {hint}")


def word(options: Any, name: str, *known: str) -> str:
    """Return an option that is one of the known words, the first of them by default."""
    text = str(options.get(name, known[0]))
    if text not in known:
        raise ConfigError(f"{BAD_OPTION}: {name}={text!r} is none of {', '.join(known)}.")
    return text


def _integer(options: Any, name: str, *, low: int | None = None) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    try:
        value = int(text)
    except ValueError:
        raise ConfigError(f"{BAD_OPTION}: {name}={text!r} is not a whole number.") from None
    if low is not None and value < low:
        raise ConfigError(f"{BAD_OPTION}: {name}={text!r} must be at least {low}.")
    return value


def seconds(options: Any, name: str, default: float) -> float:
    """Return an option that is a number of seconds, at most an hour."""
    text = options.get(name, default)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 3600:
        raise ConfigError(f"{BAD_OPTION}: {name}={text!r} is not a number of seconds from 0 to 3600.")
    return value
