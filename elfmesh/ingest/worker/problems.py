"""What a worker tells about input that it cannot use: some reasons, and the damage that it could repair.

Owns no count of records; `tally` has these.
"""

from __future__ import annotations

from elfmesh.ingest.parsers import Parsed

SAMPLES_MAX = 3


class InputProblems:
    """The problems of one worker with its input.

    Attributes:
        samples: up to three reasons why a line or a value was not usable.
        field_errors: values that did not fit their column and became null.
        replaced: lines in which malformed UTF-8 was replaced.
    """

    def __init__(self) -> None:
        self.samples: list[str] = []
        self.field_errors = self.replaced = 0

    def sample(self, reason: str) -> None:
        """Add a reason, unless there are enough."""
        if len(self.samples) < SAMPLES_MAX:
            self.samples.append(reason)

    def parsed(self, parsed: Parsed) -> None:
        """Add the problems of the parser with a block."""
        self.field_errors += parsed.field_errors
        self.replaced += parsed.replaced
        self.samples += parsed.samples[: max(0, SAMPLES_MAX - len(self.samples))]
