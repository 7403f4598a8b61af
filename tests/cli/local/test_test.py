"""`elf test`: its exit code, and what it shows."""

from __future__ import annotations

from pathlib import Path

from elfmesh.errors import UsageError
from tests.local.test_job_tests import QUERY, ROWS, case, place, run, write

__all__ = ["place"]


def test_no_case_is_no_success(place: Path) -> None:
    done = run(write(place, QUERY, ROWS))
    assert isinstance(done.exception, UsageError)


def test_text_of_logs_is_escaped(place: Path) -> None:
    (place / "log.ndjson").write_text('{"a": "\\u001b[2J"}\n')
    done = run(write(place, case("SELECT a FROM log"), [{"a": "x\x1b[2J"}]))
    assert done.return_value == 1
    assert "\x1b" not in done.output


FUNCTION = """WITH FUNCTION f(n BIGINT) RETURNS BIGINT LANGUAGE PYTHON AS $$
def f(n): return 100 // (n - {zero})
$$ SELECT sum(f(n)) AS s, count(*) AS c FROM log;
"""


def test_python_functions_are_evaluated_where_the_file_is_trusted(place: Path) -> None:
    rows = [{"s": sum(100 // (n + 1) for n in range(20)), "c": 20}]
    job = write(place, case(FUNCTION.format(zero=-1)), rows)
    refused = run(job)
    assert refused.return_value == 1
    assert "defines Python functions, which are disabled" in refused.stdout
    assert "--python" in refused.stdout
    assert run("--python", job).return_value == 0
    other = run("--python", write(place, case(FUNCTION.format(zero=3)), rows))
    assert other.return_value == 1
    assert "f cannot take a record: line 2: ZeroDivisionError" in other.stdout, "why the rows differ"
