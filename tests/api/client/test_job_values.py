"""What programs are given and what they say, as bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

import elfmesh
from elfmesh.api.client.job_values import lines_of, packed
from elfmesh.cli.jobs.program import find_job
from elfmesh.control.protocol import program_frames
from elfmesh.errors import UsageError


def test_a_program_needs_a_valid_name_and_plain_values(tmp_path: Path) -> None:
    class Nameless(elfmesh.Job):
        pass

    class Twice(elfmesh.Job):
        name = "a/b"
        query = "CREATE JOB c.d EVERY '1 s' AS SELECT count(*) AS n FROM log"

    for kind in (Nameless, Twice):
        with pytest.raises(UsageError):
            kind()
    with pytest.raises(UsageError, match="plain values"):
        packed(object())
    with pytest.raises(UsageError, match="is over"):
        packed(b"x" * (program_frames.MESSAGE_BYTES_MAX + 1))
    with pytest.raises(UsageError, match="JSON"):
        lines_of([{"k": object()}], "2026-01-01T00:00:00Z")
    file = tmp_path / "two.py"
    kinds = "".join(f"class {kind}(elfmesh.Job): name = 'a/{kind}'\n" for kind in "AB")
    file.write_text(f"import elfmesh\n{kinds}")
    assert find_job(file, "B").name == "a/B"
    with pytest.raises(UsageError, match="A, B"):
        find_job(file, None)
    with pytest.raises(UsageError, match=r"no elfmesh\.Job C"):
        find_job(file, "C")
