"""Statistics of a run of `elf run`."""

from __future__ import annotations

from msgspec import Struct, field


class RunStats(Struct):
    """What a run has read so far.

    Attributes:
        records: number of lines, valid or not.
        parse_errors: lines that could not be used, including those without a usable time.
        function_errors: records for which a Python function failed.
        broken: violations of ASSUME in the intervals of the run.
        undated: records without a readable time, if no window makes them parse errors.
        outside: records outside of the range of times; they are in no other count.
        filtered: records that WHERE dropped.
        field_errors: values that did not fit their column and became null.
        replaced: lines in which malformed UTF-8 was replaced.
        samples: samples of errors.
        formats: detected format of each file.
        unseen: JSON fields without a value in any record, with "Did you mean ...?", or "".
        doubts: comparisons that no value in some file can satisfy.
        untaken: expressions that take texts apart of which none was a list or map.
        gaps: losses of lines while the files were followed.
        seconds: duration of the run.
    """

    records: int = 0
    parse_errors: int = 0
    function_errors: int = 0
    broken: int = 0
    undated: int = 0
    outside: int = 0
    filtered: int = 0
    field_errors: int = 0
    replaced: int = 0
    samples: list[str] = field(default_factory=list)
    formats: dict[str, str] = field(default_factory=dict)
    unseen: dict[str, str] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    untaken: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    seconds: float = 0.0
