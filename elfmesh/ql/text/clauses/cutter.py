"""Removal of ELF-QL's own clauses from the tokens before sqlglot parses the rest.

The cutter removes CREATE JOB with its options (`job_header`), and ON (label = 'value') (`inputs`). It marks
function names so that sqlglot passes every call through unchanged, and it raises QueryError for syntax that
ELF-QL does not have. No class of sqlglot is subclassed, so sqlglot's compiled build works. Tokens keep their
offsets, so later errors refer to positions in the user's text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace
from sqlglot.tokenizer_core import Token

from elfmesh.ql.expressions.assumption import Assumption
from elfmesh.ql.expressions.python_function import PythonFunction
from elfmesh.ql.expressions.resampling import ResampleClause
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.plan.declared import cut_functions
from elfmesh.ql.plan.sealing import sealed_as_calls
from elfmesh.ql.plan.statement import JobClause
from elfmesh.ql.text.clauses.algebraic import AlgebraicReader
from elfmesh.ql.text.clauses.inputs import QUERY, InputReader
from elfmesh.ql.text.clauses.job_header import JobHeader
from elfmesh.ql.text.clauses.resample import ResampleReader
from elfmesh.ql.text.refusing import mark_functions, no_select, refuse_phrases, refuse_words
from elfmesh.ql.text.tokens import as_calls, check_brackets, normalised


class Cut(Struct, frozen=True):
    """Result of the cutter: ELF-QL's clauses, and the tokens of Spark SQL with marked function names.

    The keys of `labels`, `beside` (LATEST, SAME) and `within` are the offsets of the names of streams or
    jobs; those of `resamples` are aliases of subqueries. HISTORY and UNTIL may be written at `source_end`;
    the first of them is at `history_at`.
    """

    tokens: list[Token]
    job: JobClause | None
    job_at: int
    every_at: int
    early_at: int
    standby_at: int
    history_at: int
    source_end: int
    labels: Mapping[int, tuple[tuple[str, str], ...]]
    beside: Mapping[int, str]
    within: Mapping[int, tuple[int, int]]
    functions: Mapping[str, PythonFunction]
    assumes: tuple[Assumption, ...]
    resamples: Mapping[str, ResampleClause]


def cut_clauses(source: SourceText, tokens: Sequence[Token]) -> Cut:
    """Cut the clauses of one statement; `tokens` must not be empty."""
    header = JobHeader(source, normalised(source, tokens))
    job_at, job = tokens[0].start, header.read()
    whole, at = header.rest
    functions, begin = cut_functions(source, whole, at)
    whole = AlgebraicReader(source, whole, begin, functions).cut()
    whole, resamples = ResampleReader(source, whole, begin).cut()
    _check_query(source, whole, begin)
    inputs = InputReader(source, whole, begin)
    beside, within = inputs.beside(), inputs.within()
    labels, keep = inputs.read()
    times = inputs.range
    if times and job is None:
        hint = "Write `elf query \"SELECT ...\" --history '10 min'`, or CREATE JOB name AS SELECT ..."
        raise source.error("HISTORY and UNTIL are for jobs", times.at, hint)
    if job is not None:
        job = replace(job, history_us=times.begin_us, until_us=times.end_us, dated=times.dated)
    marked = as_calls(mark_functions(source, sealed_as_calls(source, keep), functions))
    return Cut(
        marked, job, job_at, header.every_at, header.early_at, header.standby_at, times.at,
        inputs.source_end, labels, beside, within, functions, header.assumes, resamples,
    )  # fmt: skip


def _check_query(source: SourceText, tokens: list[Token], begin: int) -> None:
    first = tokens[begin].text.upper() if begin < len(tokens) else ""
    if first not in (*QUERY, "("):
        raise no_select(source, tokens, begin)
    check_brackets(source, tokens[begin:])
    refuse_phrases(source, tokens[begin:])
    refuse_words(source, tokens, begin)
