"""Removal of ELF-QL's own clauses from the tokens before sqlglot parses the rest.

The cutter removes CREATE JOB with its options, and ON (label = 'value'). It marks function names so that
sqlglot passes every call through unchanged, and it raises QueryError for syntax that ELF-QL does not have. No
class of sqlglot is subclassed, so sqlglot's compiled build works. Tokens keep their offsets, so later errors
refer to positions in the user's text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot.tokenizer_core import Token, TokenType

from elfmesh import ids
from elfmesh.ql.expressions.alert_clause import AlertClause
from elfmesh.ql.expressions.python_function import PythonFunction
from elfmesh.ql.expressions.refusals import (
    FILE_HINT,
    FOREIGN_CREATIONS,
    FOREIGN_RELATIONS,
    STREAM_NAME,
)
from elfmesh.ql.expressions.standby_budget import ALL_MEMBERS
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.lowering.alerts import ALERT, ALERTS_MAX, read_alert
from elfmesh.ql.lowering.standby import LAG, LAG_US_MIN, STANDBY, STANDBY_ACROSS, read_budget
from elfmesh.ql.plan import inline
from elfmesh.ql.plan.declared import cut_functions
from elfmesh.ql.plan.delivery import TOPIC, TopicDelivery
from elfmesh.ql.plan.early import EARLY, PERIOD_US_MIN
from elfmesh.ql.plan.history import HISTORY, TIMESTAMP, UNTIL, JobRange, begins_range, time_of
from elfmesh.ql.plan.sealing import SHAPE as SEALED_SHAPE
from elfmesh.ql.plan.sealing import closing, sealed_as_calls
from elfmesh.ql.plan.statement import ACROSS, BESIDE, DOMAINS, KEEP, SEALED, JobClause, job_clause
from elfmesh.ql.plan.topics import delivery_of, query_tokens, topic_options
from elfmesh.ql.text.refusing import mark_functions, no_select, refuse_phrases, refuse_words
from elfmesh.ql.text.tokens import TokenReader, as_calls, check_brackets, names_columns, normalised
from elfmesh.text import suggest

PARTITIONS_MAX = 64
"""Maximum number of trees of one job. Each tree has its own root; more of them cost more messages than they
spread load."""

REPLICAS_MAX = 3
"""Maximum number of peers that store each contribution. Each peer writes and syncs all of them."""

PATHS_MAX = 5
"""Maximum number of sites of a job."""

PATHS = "PATHS"

_NAME_HINT = "A name begins with a letter or `_` and has at most 128 letters, digits, `_` and `-`."
_DURATIONS = ("EVERY", "LATENESS", "DEADLINE", "HORIZON", EARLY, LAG)
_OPTIONS = (*_DURATIONS, "ON STRAGGLER", "PARTITIONS", "REPLICAS", STANDBY, PATHS, KEEP, ALERT, inline.WORD)
_NUMBERS = {"PARTITIONS": (1, PARTITIONS_MAX), "REPLICAS": (0, REPLICAS_MAX), PATHS: (1, PATHS_MAX)}
_LEAST = {
    "EVERY": (1, "greater than zero", "'30 s'"),
    EARLY: (PERIOD_US_MIN, "at least 50 ms", "'250 ms'"),
    LAG: (LAG_US_MIN, "at least 100 ms", "'1 s'"),
}
_QUERY = ("SELECT", "WITH")
_STRAGGLER = ("CORRECT", "SKIP", "WAIT")
_AFTER_FROM = ("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "ON", "WINDOW", "UNION", "JOIN", "AS")


@dataclass(frozen=True, slots=True)
class Cut:
    """Result of the cutter: ELF-QL's clauses, and the tokens of Spark SQL with marked function names.

    The keys of `labels` and `beside` (LATEST, SAME) are the offsets of the names of streams or jobs. HISTORY
    and UNTIL may be written at `source_end`; the first of them is at `history_at`.
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
    functions: Mapping[str, PythonFunction]


class Cutter(TokenReader):
    """Cutter of one statement; `tokens` must not be empty."""

    def __init__(self, source: SourceText, tokens: Sequence[Token]) -> None:
        super().__init__(source, normalised(source, tokens))
        self._every_at = self._early_at = self._standby_at = self._source_end = 0
        self._range = JobRange(source)
        self._standbys = ALL_MEMBERS
        self._alerts: dict[str, AlertClause] = {}
        self._functions: Mapping[str, PythonFunction] = {}

    def cut(self) -> Cut:
        job_at, job = self._tokens[0].start, self._job()
        self._functions, begin = cut_functions(self._source, self._tokens, self._at)
        self._at = begin
        if self._word() not in (*_QUERY, "("):
            raise no_select(self._source, self._tokens, begin)
        check_brackets(self._source, self._tokens[begin:])
        refuse_phrases(self._source, self._tokens[begin:])
        refuse_words(self._source, self._tokens, begin)
        beside = self._cut_beside(begin)
        labels, keep = self._inputs(begin)
        if self._range and job is None:
            hint = "Write `elf query \"SELECT ...\" --history '10 min'`, or CREATE JOB name AS SELECT ..."
            raise self._source.error("HISTORY and UNTIL are for jobs", self._range.at, hint)
        if job is not None:
            times = self._range
            job = replace(
                job, history_us=times.begin_us, until_us=times.end_us, dated=times.dated,
                standbys=self._standbys, alerts=tuple(self._alerts.values()),
            )  # fmt: skip
        marked = as_calls(mark_functions(self._source, sealed_as_calls(self._source, keep), self._functions))
        return Cut(
            marked, job, job_at, self._every_at, self._early_at, self._standby_at, self._range.at,
            self._source_end, labels, beside, self._functions,
        )  # fmt: skip

    # -- CREATE JOB

    def _job(self) -> JobClause | None:
        if self._word() != "CREATE":
            return None
        self._at += 1
        if self._word() == TOPIC:
            return self._topic()
        if self._word() != "JOB":
            hint = FOREIGN_CREATIONS.get(self._word(), "Write CREATE JOB name AS SELECT ...")
            raise self._error(f"only jobs and topics can be created, not `{self._shown()}`", hint)
        self._at += 1
        names = self._job_name()
        given, tables = self._options("AS")
        self._at += 1
        return job_clause(names, given, tuple(tables.values()))

    def _topic(self) -> JobClause:
        """Read a topic, and put the query that it stands for in its place."""
        self._at += 1
        names = self._job_name()
        stream = self._tokens[self._at - 1]
        if self._word() == "FROM":
            self._at += 1
            self._identifier(STREAM_NAME)
            stream = self._tokens[self._at - 1]
        if self._word() != "DELIVERY":
            raise self._error(f"expected DELIVERY, found `{self._shown()}`", "Write DELIVERY SEQUENCED ...")
        self._at += 1
        delivery, begin = delivery_of(self._word(), self._error), self._at
        self._at += 1
        if delivery is TopicDelivery.SEALED:
            if self._word() != "(":
                raise self._error(f"{SEALED.upper()} needs its keys in parentheses", SEALED_SHAPE)
            check_brackets(self._source, self._tokens[self._at :])
            self._at = closing(self._tokens, self._at) + 1
        seal = self._tokens[begin + 1 : self._at]
        given, tables = self._options("")
        if tables or self._alerts:
            raise self._error("a topic has no TABLE and no ALERT", "Leave it out.")
        options = topic_options(delivery, given, self._error)
        query = query_tokens(delivery, self._tokens[begin], stream, seal, self._error)
        self._tokens, self._at = [*self._tokens[: self._at], *query], len(self._tokens)
        return job_clause(names, options, (), delivery)

    def _options(self, end: str) -> tuple[dict[str, int | str], dict[str, inline.InlineTable]]:
        """Read options up to a word; "" is the end of the text."""
        given: dict[str, int | str] = {}
        tables: dict[str, inline.InlineTable] = {}
        while self._word() != end:
            if self._word() == inline.WORD:
                self._table(tables)
                continue
            if self._word() == ALERT:
                self._alert()
                continue
            option = self._option(end)
            if option in given:
                raise self._error(f"{option} is given twice", "Remove one of them.")
            start = self._tokens[self._at].start
            self._at += len(option.split())
            given[option] = self._option_value(option)
            if option in (PATHS, STANDBY) and self._word() == ACROSS:
                self._at += 1
                given[ACROSS if option == PATHS else STANDBY_ACROSS] = self._domain()
            if option == "EVERY":
                self._every_at = start
            elif option == EARLY:
                self._early_at = start
            elif option == STANDBY:
                self._standby_at = start
        if LAG in given and STANDBY not in given:
            raise self._error("LAG is an option of STANDBY", "Write STANDBY ALL LAG '1 s'.")
        return given, tables

    def _table(self, tables: dict[str, inline.InlineTable]) -> None:
        found, at = inline.read_table(self._source, self._tokens, self._at + 1)
        if found.name in tables:
            raise self._error(f"table {found.name} is duplicated", "Give one of them another name.")
        tables[found.name], self._at = found, at

    def _alert(self) -> None:
        found, at = read_alert(self._source, self._tokens, self._at)
        if found.name in self._alerts or len(self._alerts) == ALERTS_MAX:
            raise self._error(f"alert {found.name} is duplicated, or beyond {ALERTS_MAX}", "Remove it.")
        self._alerts[found.name], self._at = found, at

    def _job_name(self) -> tuple[str, str]:
        parts = [self._identifier("the name of the job")]
        while self._word() == ".":
            self._at += 1
            parts.append(self._identifier("the rest of the job's name"))
        if len(parts) > 2:
            raise self._error("a job's name has at most two parts", "Write namespace.name.")
        for part in parts:
            if not ids.JOB_NAME.fullmatch(part):
                raise self._error(f"`{part}` is not the name of a job or a namespace", _NAME_HINT)
        return (parts[0], parts[1]) if len(parts) == 2 else ("default", parts[0])

    def _option(self, end: str) -> str:
        word = self._word()
        if word in ("ON", "KEEP"):
            word = f"{word} {self._word(1)}"
        if word not in _OPTIONS:
            known = f"Options are {', '.join(_OPTIONS)}{'; then AS SELECT' if end else ''}."
            hint = suggest(word, (*_OPTIONS, end) if end else _OPTIONS) or known
            what = "an option of the job or AS" if end else "an option of the topic"
            raise self._error(f"expected {what}, found `{self._shown()}`", hint)
        return word

    def _option_value(self, option: str) -> int | str:
        if option == KEEP:
            return 1
        if option == STANDBY:
            self._standbys, read = read_budget(self._word(), self._word(1), self._shown(), self._error)
            self._at += read
            return 1
        if option == "ON STRAGGLER":
            if self._word() not in _STRAGGLER:
                hint = suggest(self._word(), _STRAGGLER) or "Write CORRECT, SKIP or WAIT."
                raise self._error(f"ON STRAGGLER takes CORRECT, SKIP or WAIT, not `{self._shown()}`", hint)
            self._at += 1
            return self._tokens[self._at - 1].text.lower()
        if option in _NUMBERS:
            (least, most), text = _NUMBERS[option], self._word()
            if not text.isdigit() or not least <= int(text) <= most:
                known = f"a number from {least} to {most}" if least < most else str(most)
                raise self._error(f"{option} takes {known}, not `{self._shown()}`", f"Write {option} {most}.")
            self._at += 1
            return int(text)
        start, value = self._at, self._duration(option)
        if option in _LEAST and value < _LEAST[option][0]:
            self._at = start
            raise self._error(f"{option} must be {_LEAST[option][1]}", f"Write {option} {_LEAST[option][2]}.")
        return value

    def _domain(self) -> str:
        word = self._word().lower()
        if word not in DOMAINS:
            hint = suggest(word, DOMAINS) or "Agents state these labels as labels.region and labels.rack."
            raise self._error(f"{ACROSS} takes {' or '.join(DOMAINS)}, not `{self._shown()}`", hint)
        self._at += 1
        return word

    # -- FROM [LATEST job | SAME job | stream] [alias] [ON (labels)]

    def _cut_beside(self, begin: int) -> dict[int, str]:
        """Remove LATEST and SAME before the name of a job; return them by the offsets of the name's parts."""
        found, keep = dict[int, str](), self._tokens[:begin]
        for at in range(begin, len(self._tokens)):
            self._at = at
            quoted = self._tokens[at].token_type in (TokenType.STRING, TokenType.IDENTIFIER)
            named = self._word() in BESIDE and self._word(2) == "." and not quoted
            if named and self._word(-1) in ("FROM", "JOIN"):
                found[self._tokens[at + 1].start] = BESIDE[self._word()]
            else:
                keep.append(self._tokens[at])
        self._tokens, self._at = keep, begin
        return found

    def _inputs(self, begin: int) -> tuple[dict[int, tuple[tuple[str, str], ...]], list[Token]]:
        labels: dict[int, tuple[tuple[str, str], ...]] = {}
        keep: list[Token] = []
        # For each open parenthesis: whether it contains a query, because EXTRACT(x FROM y) reads no input.
        queries, found, start = [True], False, begin
        self._at = begin
        while self._at < len(self._tokens):
            quoted = self._tokens[self._at].token_type in (TokenType.STRING, TokenType.IDENTIFIER)
            word = "" if quoted else self._word()
            self._at += 1
            if word == "(":
                queries.append(self._word() in _QUERY)
            elif word == ")":
                queries.pop()
            elif word == "FROM" and queries[-1] and self._word(-2) != "DISTINCT":  # not IS DISTINCT FROM
                found = True
                while self._word() != "(" and (self._word() != "UNNEST" or self._word(1) != "("):
                    at = self._stream()
                    if self._word() == "ON":
                        keep += self._tokens[start : self._at]
                        self._at += 1
                        labels[at] = self._labels()
                        start = self._at
                    self._source_end = self._source_end or self._tokens[self._at - 1].end + 1
                    if begins_range(self._tokens, self._at):
                        keep += self._tokens[start : self._at]
                        self._read_range()
                        start = self._at
                    if self._word() != ",":
                        break
                    self._at += 1
        if not found:
            raise self._error("the query does not say FROM which stream it reads", "Add FROM stream.")
        return labels, keep + self._tokens[start:]

    def _read_range(self) -> None:
        """Read HISTORY and UNTIL, which hold for all inputs of the job."""
        while begins_range(self._tokens, self._at):
            word, at, after = self._word(), self._tokens[self._at].start, self._word(1)
            self._at += 1
            if after in (TIMESTAMP, HISTORY):
                value = 0 if after == HISTORY else time_of(self._source, self._tokens, self._at + 1, word)
                self._at += 1 if after == HISTORY else 2
            else:
                value = self._duration(word)
            if word == UNTIL and not value and after != HISTORY:
                raise self._source.error("UNTIL must be greater than zero", at, "Write UNTIL '10 min'.")
            self._range.add(word, value, at, dated=after == TIMESTAMP)
        self._range.check()

    def _stream(self) -> int:
        if self._word() == "STREAM" and self._word(1) not in ("", *_AFTER_FROM, ")"):
            raise self._error("STREAM is not an ELF-QL keyword", "Write FROM name.")
        at = self._tokens[self._at].start if self._at < len(self._tokens) else 0
        self._identifier(STREAM_NAME)
        if self._word() == ".":
            self._at += 1
            self._identifier("the rest of the name")
        if self._word() == "AS":
            self._at += 1
            self._identifier("an alias")
        elif (
            self._at < len(self._tokens)
            and self._tokens[self._at].token_type in (TokenType.VAR, TokenType.IDENTIFIER)
            and not begins_range(self._tokens, self._at)
        ):
            self._refuse_option_after_from()
            self._identifier("an alias")
        self._refuse_option_after_from()
        if self._word() == "(":
            self._after_bracket(at)
        return at

    def _after_bracket(self, at: int) -> None:
        """Skip the columns of an alias, t(a, b); raise QueryError for a table function or a file."""
        if names_columns(self._tokens, self._at) and self._tokens[self._at - 1].start != at:
            while self._word() != ")":
                self._at += 1
            self._at += 1
            return
        name, argument = self._tokens[self._at - 1].text, self._tokens[self._at + 1].token_type
        if self._tokens[self._at - 2].text.upper() == "LATERAL":
            hint = "Write CROSS JOIN LATERAL explode(x) AS t(e)."
            raise self._source.error("ELF-QL has LATERAL only after JOIN", at, hint)
        if self._tokens[self._at - 1].start != at:
            raise self._error(f"the columns of {name} must be names in parentheses", f"Write {name}(a, b).")
        hint = FILE_HINT if argument == TokenType.STRING else "FROM takes the name of a stream."
        hint = FOREIGN_RELATIONS.get(name.upper(), hint)
        message = "ELF-QL has no VALUES" if name.upper() == "VALUES" else f"ELF-QL has no {name}(...) in FROM"
        raise self._source.error(message, at, hint)

    def _refuse_option_after_from(self) -> None:
        word = self._word()
        last = self._at < len(self._tokens) and self._tokens[self._at].token_type == TokenType.VAR
        if last and word in ("GROUP", "ORDER"):
            raise self._error(f"{word} needs BY", f"Write {word} BY a, b.")
        if word in _OPTIONS and (self._word(1) or " ")[0] in "0123456789I":
            raise self._error(
                f"{word} is an option of a job, not of a query",
                f"Write CREATE JOB name {word} ... AS SELECT ...",
            )
