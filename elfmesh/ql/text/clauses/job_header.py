"""The head of a job or a topic: CREATE JOB with its options up to AS, CREATE TOPIC.

Owns the options, their words and their limits. A topic stands for a query; the reader puts the tokens of that
query in the place of the topic's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace
from sqlglot.tokenizer_core import Token

from elfmesh import ids
from elfmesh.ql.expressions.alert_clause import AlertClause
from elfmesh.ql.expressions.assumption import Assumption
from elfmesh.ql.expressions.refusals import FOREIGN_CREATIONS, STREAM_NAME
from elfmesh.ql.expressions.standby_budget import ALL_MEMBERS
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.lowering.alerts import ALERT, ALERTS_MAX, read_alert
from elfmesh.ql.lowering.assumptions import ASSUME, ASSUMPTIONS_MAX, read_assumptions
from elfmesh.ql.lowering.standby import LAG, LAG_US_MIN, STANDBY, STANDBY_ACROSS, read_budget
from elfmesh.ql.plan import inline
from elfmesh.ql.plan.delivery import TOPIC, TopicDelivery
from elfmesh.ql.plan.early import EARLY, PERIOD_US_MIN
from elfmesh.ql.plan.sealing import SHAPE as SEALED_SHAPE
from elfmesh.ql.plan.sealing import closing
from elfmesh.ql.plan.statement import (
    ACROSS,
    COPIES,
    COST,
    DEADLINE_US_DEFAULT,
    DOMAINS,
    KEEP,
    LAG_US_DEFAULT,
    REPLICAS,
    REPLICAS_ACROSS,
    SEALED,
    JobClause,
)
from elfmesh.ql.plan.topics import delivery_of, query_tokens, topic_options
from elfmesh.ql.text.tokens import TokenReader, check_brackets
from elfmesh.text import suggest

PARTITIONS_MAX = 64
"""Maximum number of trees of one job. Each tree has its own root; more of them cost more messages than they
spread load."""

REPLICAS_MAX = 3
"""Maximum number of peers that store each contribution. Each peer writes and syncs all of them."""

PATHS_MAX = 5
"""Maximum number of sites of a job."""

COST_MAX = 1000.0
"""Greatest bound of the network cost; the cost of all paths is below it in any layout."""

PATHS = "PATHS"
_LABELS = {PATHS: ACROSS, STANDBY: STANDBY_ACROSS, REPLICAS: REPLICAS_ACROSS}
"""Options that a failure domain may follow, with the name of that domain."""

_NAME_HINT = "A name begins with a letter or `_` and has at most 128 letters, digits, `_` and `-`."
_DURATIONS = ("EVERY", "LATENESS", "DEADLINE", "HORIZON", EARLY, LAG)
OPTIONS = (
    *_DURATIONS, "ON STRAGGLER", "PARTITIONS", REPLICAS, STANDBY, PATHS, COST, KEEP, ASSUME, ALERT,
    inline.WORD,
)  # fmt: skip
_NUMBERS = {"PARTITIONS": (1, PARTITIONS_MAX), REPLICAS: (0, REPLICAS_MAX), PATHS: (1, PATHS_MAX)}
_LEAST = {
    "EVERY": (1, "greater than zero", "'30 s'"),
    EARLY: (PERIOD_US_MIN, "at least 50 ms", "'250 ms'"),
    LAG: (LAG_US_MIN, "at least 100 ms", "'1 s'"),
}
_FACTOR = re.compile(r"\d{1,6}(\.\d{1,6})?")
_STRAGGLER = ("CORRECT", "SKIP", "WAIT")


class JobHeader(TokenReader):
    """Reads the head of one statement; `tokens` must not be empty.

    Attributes:
        every_at: offset of EVERY, 0 if it is not there; `early_at` and `standby_at` likewise.
        assumes: what the job assumes of its records.
    """

    def __init__(self, source: SourceText, tokens: list[Token]) -> None:
        super().__init__(source, tokens)
        self.every_at = self.early_at = self.standby_at = 0
        self._standbys = ALL_MEMBERS
        self._alerts: dict[str, AlertClause] = {}
        self.assumes: tuple[Assumption, ...] = ()

    @property
    def rest(self) -> tuple[list[Token], int]:
        """The tokens of the statement, and the place of the first one behind the head."""
        return self._tokens, self._at

    def read(self) -> JobClause | None:
        """Read up to AS, or the whole topic; returns None if the text is a query, not a job."""
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
        job = _clause_of(names, given, tuple(tables.values()))
        return replace(job, standbys=self._standbys, alerts=tuple(self._alerts.values()))

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
        if tables or self._alerts or self.assumes:
            raise self._error("a topic has no TABLE, no ALERT and no ASSUME", "Leave it out.")
        options = topic_options(delivery, given, self._error)
        query = query_tokens(delivery, self._tokens[begin], stream, seal, self._error)
        self._tokens, self._at = [*self._tokens[: self._at], *query], len(self._tokens)
        return replace(_clause_of(names, options, (), delivery), standbys=self._standbys)

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
            if self._word() == ASSUME:
                self._assume()
                continue
            option = self._option(end)
            if option in given:
                raise self._error(f"{option} is given twice", "Remove one of them.")
            start = self._tokens[self._at].start
            self._at += len(option.split())
            given[option] = self._option_value(option)
            if option == PATHS and self._word() == ",":
                self._at += 1
                given[COPIES] = self._number("the number of trees of PATHS", 1, int(given[PATHS]))
            if option in _LABELS and self._word() == ACROSS:
                self._at += 1
                given[_LABELS[option]] = self._domain()
            if option == "EVERY":
                self.every_at = start
            elif option == EARLY:
                self.early_at = start
            elif option == STANDBY:
                self.standby_at = start
        if LAG in given and STANDBY not in given:
            raise self._error("LAG is an option of STANDBY", "Write STANDBY ALL LAG '1 s'.")
        if COST in given and PATHS not in given:
            raise self._error("COST is an option of PATHS", "Write PATHS 3 COST 6.")
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

    def _assume(self) -> None:
        found, at = read_assumptions(self._source, self._tokens, self._at)
        for each in found:
            if each in self.assumes or len(self.assumes) == ASSUMPTIONS_MAX:
                message = f"the assumption {each} is duplicated, or beyond {ASSUMPTIONS_MAX}"
                raise self._source.error(message, each.at, "Remove it.")
            self.assumes += (each,)
        self._at = at

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
        if word not in OPTIONS:
            known = f"Options are {', '.join(OPTIONS)}{'; then AS SELECT' if end else ''}."
            hint = suggest(word, (*OPTIONS, end) if end else OPTIONS) or known
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
            return self._number(option, *_NUMBERS[option])
        if option == COST:
            return self._cost()
        start, value = self._at, self._duration(option)
        if option in _LEAST and value < _LEAST[option][0]:
            self._at = start
            raise self._error(f"{option} must be {_LEAST[option][1]}", f"Write {option} {_LEAST[option][2]}.")
        return value

    def _number(self, option: str, least: int, most: int) -> int:
        text = self._word()
        if not text.isdigit() or not least <= int(text) <= most:
            known = f"a number from {least} to {most}" if least < most else str(most)
            raise self._error(f"{option} takes {known}, not `{self._shown()}`", f"Write {option} {most}.")
        self._at += 1
        return int(text)

    def _cost(self) -> str:
        text = self._word()
        if not _FACTOR.fullmatch(text) or not 1 <= float(text) <= COST_MAX:
            known = f"a number from 1 to {COST_MAX:g}, in units of the cost of PATHS 1"
            raise self._error(f"{COST} takes {known}, not `{self._shown()}`", f"Write {COST} 6.")
        self._at += 1
        return text

    def _domain(self) -> str:
        word = self._word().lower()
        if word not in DOMAINS:
            hint = suggest(word, DOMAINS) or "Agents state these labels as labels.region and labels.rack."
            raise self._error(f"{ACROSS} takes {' or '.join(DOMAINS)}, not `{self._shown()}`", hint)
        self._at += 1
        return word


def _clause_of(
    names: tuple[str, str],
    given: Mapping[str, int | str],
    tables: tuple[inline.InlineTable, ...],
    delivery: TopicDelivery | None = None,
) -> JobClause:
    """Return the clause of a job or topic whose options are given by their words."""
    every, horizon, early = (given.get(name) for name in ("EVERY", "HORIZON", "EARLY"))
    standby = int(given.get("LAG", LAG_US_DEFAULT)) if "STANDBY" in given else None
    return JobClause(
        *names, None if every is None else int(every), int(given.get("LATENESS", 0)),
        int(given.get("DEADLINE", DEADLINE_US_DEFAULT)), str(given.get("ON STRAGGLER", "correct")),
        int(given.get("PARTITIONS", 1)), None if horizon is None else int(horizon),
        int(given.get(REPLICAS, 0 if standby is None else 1)), KEEP in given, tables,
        None if early is None else int(early), delivery=delivery, standby_us=standby,
        paths=int(given.get("PATHS", 0)), across=str(given.get(ACROSS, "")),
        copies=int(given.get(COPIES, 1)), cost=float(given[COST]) if COST in given else None,
        standby_across=str(given.get("STANDBY ACROSS", "rack")),
        replicas_across=str(given.get(REPLICAS_ACROSS, "")),
    )  # fmt: skip
