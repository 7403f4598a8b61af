from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from elfmesh.cli.local.explain import explain_command
from elfmesh.errors import QueryError, UsageError
from elfmesh.local.embedded import answers

LOG = "".join(
    json.dumps({"ts": f"2015-05-17T10:00:{at % 60:02}Z", "u": f"user{at % 9}", "n": at}) + "\n"
    for at in range(600)
)


def invoke(*words: object) -> Result:
    return CliRunner().invoke(explain_command, [str(word) for word in words], standalone_mode=False)


def test_a_sample_is_measured_by_running_it(tmp_path: Path) -> None:
    log = tmp_path / "log.ndjson"
    log.write_text(LOG)
    text = "SELECT u, sum(n) FROM log WHERE n >= 60 GROUP BY TUMBLE(ts, INTERVAL '30' SECOND), u"
    done = invoke(text, "--sample", log, "-o", "json")
    measured = json.loads(done.stdout)["measured"]
    assert measured["records"] == 600
    assert measured["bytes_read"] == len(LOG)
    assert (measured["contributed"], measured["intervals"]) == (540, 2)
    assert measured["groups"] == sum(each.table.num_rows for each in answers(text, str(log)))
    assert 0 < measured["bytes_per_interval"] <= measured["bytes_of_largest_interval"] < len(LOG)
    assert "measured:" in invoke(text, "--sample", log).stdout


def test_without_a_sample_a_formula_is_shown_and_called_one() -> None:
    done = invoke("SELECT u, count(*), count(DISTINCT n) FROM log GROUP BY u")
    assert "as a formula; --sample measures them" in done.stdout
    assert "main: groups x (bytes of u + 8)" in done.stdout
    assert "d0: groups x (bytes of u, n)" in done.stdout


def test_an_update_is_compared_with_what_runs(tmp_path: Path) -> None:
    old, new = tmp_path / "old.elfql", tmp_path / "new.elfql"
    old.write_text("CREATE JOB a.b EVERY '1 s' AS SELECT u, count(*) AS k FROM log GROUP BY u")
    new.write_text(old.read_text() + " HAVING count(*) > 3")
    done = invoke("-f", new, "--update-of", old)
    assert "update: keep, in place (only the end of the query has changed)" in done.stdout
    new.write_text(old.read_text().replace("FROM log", "FROM log WHERE u > 'a'"))
    assert (
        json.loads(invoke("-f", new, "--update-of", old, "-o", "json").stdout)["update"]["state"] == "warm up"
    )


def test_rows_that_differ_between_readers_for_a_while_are_shown_with_their_end() -> None:
    newest = invoke("SELECT n FROM a.b").stdout
    assert "determinism of newest rows: Inst, without `--at TIME`, because" in newest
    window = "SELECT count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '5' SECOND)"
    of_sites = invoke(f"CREATE JOB a.b PATHS 2 ACROSS rack AS {window}").stdout
    assert "determinism of tentative rows: Inst, until the final record replaces it" in of_sites
    assert ": OR (interval): \n" not in newest, "each path has its reason"


def test_the_examples_and_a_file_of_several_jobs_can_be_explained(tmp_path: Path) -> None:
    root = Path(__file__).parents[3] / "examples"
    for path in sorted(root.rglob("*.elfql")):
        done = invoke("-f", path)
        assert done.exception is None, (path, done.exception)
        assert "├─ agents" in done.stdout
    both = tmp_path / "both.elfql"
    both.write_text("SELECT a FROM b;\nSELECT sum(a) FROM b")
    assert len(invoke("-f", both, "-o", "json").stdout.splitlines()) == 2


def test_wrong_use_and_wrong_text() -> None:
    assert isinstance(invoke().exception, UsageError)
    assert isinstance(invoke("SELECT 1 FROM a", "-f", "x").exception, UsageError)
    error = invoke("SELECT cuont(*) FROM a").exception
    assert isinstance(error, QueryError)
    assert "^" in str(error)


def test_text_of_a_query_cannot_reach_the_terminal() -> None:
    assert "\x1b" not in invoke("SELECT count(*) FROM a WHERE b = '\x1b[2J'").stdout
