"""What a run of `elf run` has read, for people."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class RunStats:
    """What a run has read so far.

    Attributes:
        records: lines, good or bad.
        function_errors: records of which a Python function made nothing.
        parse_errors: lines that could not be used, those without a usable time among them.
        undated: records without a time that can be read, where no window makes them parse errors.
        field_errors: values that did not fit their column and became null.
        replaced: lines in which malformed UTF-8 was replaced.
        formats: file -> the format it was read as.
        unseen: JSON field that no record had a value in -> "Did you mean ...?", or "".
        doubts: comparisons that nothing in some file can satisfy.
        untaken: where texts were taken apart of which none was a list or map.
    """

    records: int = 0
    parse_errors: int = 0
    function_errors: int = 0
    undated: int = 0
    filtered: int = 0
    field_errors: int = 0
    replaced: int = 0
    samples: list[str] = field(default_factory=list)
    formats: dict[str, str] = field(default_factory=dict)
    unseen: dict[str, str] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    untaken: list[str] = field(default_factory=list)
    seconds: float = 0.0
