"""`elf blazes`: shows which outputs can differ, why, and what repairs them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elfmesh.cli.common import api_option, say
from elfmesh.errors import UsageError
from elfmesh.local.text_input import read_text
from elfmesh.text import printable, suggest

if TYPE_CHECKING:
    from elfmesh.api.dataflow_files import Trial
    from elfmesh.control.coordination.derivation import Analysis
    from elfmesh.control.coordination.graph import Graph
    from elfmesh.control.coordination.labels import Severity
    from elfmesh.ql.expressions.python_function import PythonFunction

EXIT_ABOVE = 1

python_option = click.option(
    "--python", is_flag=True,
    help="Try the Python functions of the texts, which you trust: the command runs them.",
)  # fmt: skip


@click.command("blazes")
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option(
    "-o", "--output", type=click.Choice(("text", "json", "dot", "svg")), default="text", show_default=True,
    help="Output format.",
)  # fmt: skip
@click.option(
    "--rules", type=click.Choice(("sound", "paper")), default="sound", show_default=True,
    help="Rules of inference: ours, or those of the paper taken literally.",
)  # fmt: skip
@click.option("--why", metavar="OUTPUT", help="Print the derivation of the label of an output, rule by rule.")
@click.option(
    "--seal", "seals", multiple=True, metavar="STREAM=KEY[,KEY]",
    help="Analyse as if the stream were sealed on these columns; repeatable.",
)  # fmt: skip
@click.option(
    "--variant", "variants", multiple=True, metavar="COMPONENT=NAME",
    help="Choose a variant of a component; repeatable. [default: all variants]",
)  # fmt: skip
@click.option(
    "--require", metavar="LABEL",
    help="Exit with 1 if an output has a higher label: Async, Run, Inst or Diverge.",
)  # fmt: skip
@click.option(
    "--baseline", metavar="FILE",
    help="Exit with 1 if a label is worse than in FILE, an earlier output of -o json.",
)  # fmt: skip
@python_option
@click.option(
    "--explore", is_flag=True,
    help="Run each statement over --sample under several schedules, and print two whose rows differ.",
)  # fmt: skip
@click.option("--sample", metavar="LOG", help="Log without a header, of one record per line, for --explore.")
@click.option(
    "--lookup", "lookups", multiple=True, metavar="NAME=PATH[,format=F]",
    help="Table that the statements join as lookup.NAME, for --explore; repeatable.",
)  # fmt: skip
@click.option(
    "--fleet", is_flag=True, help="Analyse all jobs and topics that a fleet runs, with the programs of PATH."
)
@api_option
def blazes_command(
    paths: tuple[str, ...],
    output: str,
    rules: str,
    why: str | None,
    seals: tuple[str, ...],
    variants: tuple[str, ...],
    require: str | None,
    baseline: str | None,
    python: bool,
    explore: bool,
    sample: str | None,
    lookups: tuple[str, ...],
    fleet: bool,
    api: str | None,
) -> int:
    """Show which outputs can differ, why, and what repairs them.

    PATH is an ELF-QL file, a program (Python), a directory of them, agent.toml (its sinks), or an annotation
    file (YAML or JSON). The labels are Async (only the order of records differs), Run (contents may differ
    between runs), Inst (between instances for a while) and Diverge (permanently).
    """
    from elfmesh.api import coordination
    from elfmesh.control.coordination import baseline as baselines
    from elfmesh.control.coordination.drawing import values

    if not (fleet or paths):
        raise UsageError("no PATH", hint="Give PATH... or --fleet.")
    if explore != (sample is not None) or (lookups and not explore):
        raise UsageError("--explore needs --sample, which like --lookup is for --explore alone")
    goal = coordination.severity(require or "Async")
    chosen = dict(_pair(each, "--variant", "COMPONENT=NAME") for each in variants)
    before = None if baseline is None else baselines.read_baseline(*read_text(baseline))
    if fleet:
        graphs = coordination.load_fleet(api, *paths)
    else:
        graphs = coordination.load_all(*paths, variants=chosen, trial=trial_of(python))
    if len(graphs) > 1 and output in ("dot", "svg"):
        raise UsageError(f"-o {output} draws one dataflow", hint=f"Choose --variant: {'; '.join(graphs)}.")
    worst, worse = goal, list[str]()
    for name, graph in graphs.items():
        analysis = coordination.analyse(sealed(graph, seals), rules)
        final = [each.name for each in graph.outputs if not each.provisional]
        worst = max([worst, *(_highest(analysis, each) for each in final)])
        if why is not None:
            analysis.label(why)
        variant = name if len(graphs) > 1 else ""
        found = values(analysis, require=goal) if output == "json" or before is not None else {}
        found = {"variant": variant, **found} if variant else found
        worse += baselines.worse(before, baselines.labels_of(found)) if before is not None else []
        if output == "json":
            click.echo(json.dumps(found, ensure_ascii=False))
        else:
            _print(analysis, variant, output, why, goal)
    bug = explore and _explored(paths, Path(sample or ""), lookups, python)
    for line in worse:
        say(f"worse than {baseline}: {line}")
    return EXIT_ABOVE if bug or worse or (require is not None and worst > goal) else 0


def _explored(paths: Sequence[str], sample: Path, lookups: tuple[str, ...], python: bool) -> bool:
    """Print what schedules show of each statement, and return whether one contradicts a label."""
    from elfmesh.api import coordination
    from elfmesh.api.dataflow_files import read_files
    from elfmesh.cli.local.log_options import given_lookups
    from elfmesh.control.coordination.labels import Severity
    from elfmesh.local.explore import SCHEDULES, Exploration

    files = read_files(paths)
    analysis = coordination.analyse(files.dataflow(files.refuted(trial_of(python))))
    lines, tables, bug = sample.read_bytes().splitlines(), given_lookups(lookups), False
    for task in files.jobs().jobs:
        assert task.statement is not None
        name = task.name.replace("/", ".")
        work = Exploration(task.statement, lines, lookups=tables if lookups else None, python=python)
        with contextlib.closing(work):
            found = work.differences()
        for each in found:
            click.echo(printable(f"{name}: {each.output} rows differ between two of {SCHEDULES} schedules"))
            for line in each.lines():
                click.echo(printable(f"  {line}"))
            if each.output == "final" and _highest(analysis, name) is Severity.ASYNC:
                click.echo("  The label is Async: this is a bug in elfmesh.")
                bug = True
        if not found:
            click.echo(printable(f"{name}: equal rows in {SCHEDULES} schedules"))
    return bug


def trial_of(python: bool) -> Trial | None:
    """Return what tries a function, and reports on standard error how often; None without --python."""
    if not python:
        return None
    from elfmesh.ingest.functions.trial import try_function

    def tried(function: PythonFunction) -> str:
        found = try_function(function)
        if found.refutation is None:
            say(str(found))
        return str(found.refutation or "")

    return tried


def _highest(analysis: Analysis, output: str) -> Severity:
    return max(analysis.label(output), analysis.otherwise.get(output, analysis.label(output)))


def _print(analysis: Analysis, variant: str, output: str, why: str | None, goal: Severity) -> None:
    from elfmesh.control.coordination import drawing

    if output in ("dot", "svg"):
        click.echo(drawing.dot(analysis) if output == "dot" else drawing.svg(analysis))
        return
    if variant:
        click.echo(printable(f"variant {variant}"))
    if why is None:
        shown = list(drawing.lines(analysis, require=goal))
    else:
        shown = [f"{why}   {analysis.shown(why)}"]
        shown += [f"  {drawing.described(each)}" for each in analysis.why(why)]
    for line in shown:
        click.echo(printable(line))


def sealed(graph: Graph, seals: Sequence[str]) -> Graph:
    """Return the dataflow with additional seals, each given as STREAM=KEY[,KEY].

    Raises:
        UsageError: a seal is not written like this, or there is no such stream.
    """
    from elfmesh.control.coordination.graph import SealedOn

    added: Mapping[str, str] = dict(_pair(each, "--seal", "STREAM=KEY[,KEY]") for each in seals)
    names = {each.name for each in graph.streams}
    for name in added:
        if name not in names:
            hint = suggest(name, names) or f"There are {', '.join(sorted(names))}."
            raise UsageError(f"--seal: no stream {name}", hint=hint)
    streams = [
        replace(each, seals=(*each.seals, SealedOn(frozenset(added[each.name].split(",")))))
        if each.name in added
        else each
        for each in graph.streams
    ]
    return replace(graph, streams=tuple(streams))


def _pair(text: str, option: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals or not all(value.split(",")):
        raise UsageError(f"{option} {text}: write {form}")
    return name, value
