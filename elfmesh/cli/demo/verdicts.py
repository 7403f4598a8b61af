"""The verdicts at the end of the demo: what the agents have published, against one process and Spark.

The module owns what the terminal shows of them; `check` compares. Each verdict is False if any row differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
import pyarrow as pa
from rich.console import Console

from elfmesh.cli.demo.check import DIFFERENCES_SHOWN, JobComparison, Rows, compare
from elfmesh.cli.demo.fleet import Fleet
from elfmesh.cli.demo.jobs import DemoJob
from elfmesh.cli.demo.view import clock
from elfmesh.errors import ElfError

if TYPE_CHECKING:
    from elfmesh.ingest.job_rows import JobRows


def tell(console: Console, text: str) -> None:
    """Print a line of the demo."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def early_rows_last(console: Console, jobs: list[DemoJob]) -> bool:
    """Return whether there were early rows, and each is in its final record, or withdrawn (D-19).

    A new master does not know which rows the one before it has emitted; a record that is not clean withdraws
    those of another epoch that it lacks.
    """
    seen, withdrawn, lost = 0, 0, list[str]()
    for job in jobs:
        for index, line in ((index, line) for index, lines in job.early.items() for line in lines):
            record = job.records.get(index, {"rows": []})
            final = [row["product"] for row in record["rows"]]
            named = [row["product"] for row in record.get("withdrawn", ())]
            known = record.get("early", {"epoch": None})["epoch"]
            gone = [row["product"] for row in line["rows"] if row["product"] not in final]
            taken_back = gone if known not in (None, line["epoch"]) else set(gone) & set(named)
            lost += [f"{job.name} {index}: {each}" for each in gone if each not in taken_back]
            seen, withdrawn = seen + len(line["rows"]), withdrawn + len(taken_back)
    tell(console, f"{seen} rows were shown before their windows closed; {withdrawn} of them were withdrawn.")
    for each in lost[:DIFFERENCES_SHOWN]:
        click.echo(f"  shown early and neither final nor withdrawn: {each}", err=True)
    return bool(seen) and not lost


def equals_one_process(console: Console, jobs: list[DemoJob], fleet: Fleet, victim: str) -> bool:
    """Return whether each interval has the rows of one process, and one without the victim names it."""
    tell(console, f"\nThe same queries in one process (`elf run`) over the {len(fleet.agents)} log files:")
    equal, by_name = True, {job.name: job for job in jobs}
    for job in jobs:
        published = _job_rows([by_name[name] for name in job.reads])

        def oracle(paths: Any, job: DemoJob = job, published: JobRows = published) -> dict[int, Rows]:
            return answers_of(job.text, paths, published)

        verdict = compare(job.ordered(), fleet.traffic.paths, oracle)
        equal &= verdict.equal
        _tell_verdict(console, job, verdict)
    partial = [r for job in jobs for r in job.ordered() if victim in r["agents"]["missing"]]
    if not partial:
        tell(console, f"But no interval names {victim} as missing.")
    else:
        first = min(partial, key=lambda record: str(record["interval"]["start"]))
        tell(console, f"{victim} is named as missing from {clock(first['interval']['start'])} on.")
    return equal and bool(partial)


def _tell_verdict(console: Console, job: DemoJob, verdict: JobComparison) -> None:
    for missing, count in verdict.compared.items():
        files = f"the files without {', '.join(missing)}'s" if missing else "all files"
        files = "what the other two have published" if job.reads else files
        tell(console, f"  {job.name}: {count} interval{'s' * (count != 1)} against {files}")
    outcome = "EQUAL" if verdict.equal else "DIFFERENT"
    tell(console, f"  {job.name}: {verdict.rows} rows, {outcome}")
    for line in verdict.differences[:DIFFERENCES_SHOWN]:
        click.echo(f"  {job.name}: {line}", err=True)


def _job_rows(jobs: Sequence[DemoJob]) -> JobRows:
    from elfmesh.ingest.job_rows import JobRows
    from elfmesh.ql import parse

    found = JobRows()
    for job in jobs:
        statement = parse(job.text)
        assert statement.window is not None, "a job has intervals"
        tables = [
            (index * job.slide_us, pa.Table.from_pylist(record["rows"]))
            for index, record in sorted(job.records.items())
            if record["rows"]
        ]
        found.put(job.name, statement.columns, statement.window.size_us, tables)
    return found


def answers_of(text: str, paths: Sequence[Path], published: JobRows) -> dict[int, Rows]:
    """Compute the rows of a job's intervals in this process, by interval index."""
    from elfmesh.local.embedded import LogRun
    from elfmesh.ql import parse
    from elfmesh.ql.values.row_json import encode_json, rows_to_json

    answers = LogRun(parse(text), [str(path) for path in paths], format="json", jobs=published).answers()
    return {
        answer.record.index: msgspec.json.decode(encode_json(rows_to_json(answer.table)))
        for answer in answers
    }


def equals_on_spark(console: Console, jobs: list[DemoJob], api: str) -> bool:
    """Show the first job's results as a DataFrame. False if its rows differ from the published ones."""
    from elfmesh import spark_bridge

    tell(console, "\nStarting a local Spark session (its own messages are on stderr) ...")
    try:
        session = spark_bridge.local_session("elf demo")
    except ElfError as missing:
        tell(console, f"No Spark DataFrame: {missing}")
        return True
    job = jobs[0]
    try:
        frame = spark_bridge.results(session, job.name, api=api).orderBy(
            "interval_index", "clicks", ascending=False
        )
        rows = [row.asDict() for row in frame.collect()]
        tell(console, f'spark_bridge.results(spark, "{job.name}", api="{api}"): {len(rows)} rows')
        if not console.quiet:
            frame.show(10, truncate=False)
    finally:
        session.stop()
    published = [
        (index, row["product"], row["clicks"])
        for index, record in job.records.items()
        for row in record["rows"]
    ]
    same = sorted(published) == sorted((row["interval_index"], row["product"], row["clicks"]) for row in rows)
    tell(console, f"The DataFrame {'holds exactly' if same else 'DIFFERS from'} the published rows.")
    return same
