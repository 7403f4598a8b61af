"""Scope of one SELECT: the inputs after FROM and JOIN, and the resolution of names to their columns.

A stream has no schema, so any name may be its field. A subquery has known columns. A name that may belong to
two inputs raises QueryError unless it is qualified. Names inside a join are called `input.column`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field

from elfmesh.errors import QueryError
from elfmesh.ql.expressions.nodes import Expr, FieldRef, walk
from elfmesh.ql.expressions.text_source import SourceText, TextPosition
from elfmesh.ql.functions.nested.structs import struct_fields
from elfmesh.ql.plan.names import Bare
from elfmesh.text import suggest

ITEM, RECORD, GROUP, LATE = "item", "record", "group", "late"
"""Clauses of a name: a select item; WHERE, ON or an aggregate; GROUP BY; HAVING or ORDER BY."""

LATERAL_NODES_MAX, LATERAL_DEPTH_MAX = 10_000, 32
"""Maximum size of what a select list reads through names of its earlier items, and depth of such an item.
Each of n items that reads the one before twice would make 2^n nodes."""


class Input(Struct):
    """Input of a SELECT.

    Attributes:
        columns: known names. None: a stream or a lookup table, which may have any column.
        also: another name that qualifies its fields.
        used: the columns in use of an input with unknown columns, in order.
        made: made by LATERAL VIEW or UNNEST from the earlier inputs' rows; its names have priority.
        listed: the columns of a stream's `*`, if known.
        stream: the name of the stream, if only its records show its fields.
        declared: the columns that the stream's format declares.
        hidden: right side of LEFT SEMI or LEFT ANTI JOIN; unqualified names and `*` exclude its columns.
    """

    name: str
    columns: tuple[str, ...] | None
    at: TextPosition
    also: str = ""
    used: dict[str, None] = field(default_factory=dict)
    made: bool = False
    listed: tuple[str, ...] | None = None
    stream: str = ""
    declared: tuple[str, ...] | None = None
    hidden: bool = False

    @property
    def known(self) -> tuple[str, ...] | None:
        return self.declared if self.columns is None else self.columns

    def may_have(self, name: str) -> bool:
        """Return whether a name may be a column or a nested field of one.

        A stream whose format declares no columns may have any.
        """
        if self.columns is not None:
            return self.find(name) is not None
        if self.declared is None or name in IMPLICIT:
            return True
        names = {name.lower(), name.partition(".")[0].lower()}
        return any(column.lower() in names for column in self.declared)

    def answers_to(self, name: str) -> bool:
        return name.lower() in {each.lower() for each in (self.name, self.also) if each}

    def find(self, name: str) -> str | None:
        """Return the spelling of a known column, or None if there is no such column."""
        if self.columns is None:
            return None
        if name in self.columns:
            return name
        return next((column for column in self.columns if column.lower() == name.lower()), None)


NO_FROM = "this SELECT does not say FROM which stream it reads"

STAR = "*"
"""Column name that stands for all columns of a stream."""

IMPLICIT = ("ts", "_raw", "_source", "_host")
"""Columns that every stream has."""


class NameScope:
    """Resolver of the names of one SELECT.

    Args:
        source: text for the positions of errors.
        inputs: inputs after FROM and JOIN, in order.
        aliases: output names in lower case; true for those that read a field of that name themselves.
        around: for a scalar subquery, the scopes of the outer queries.
        bare: receives the names that may be outer columns.
    """

    def __init__(
        self,
        source: SourceText,
        inputs: Sequence[Input],
        aliases: Mapping[str, bool],
        around: Sequence[NameScope] = (),
        bare: list[Bare] | None = None,
    ) -> None:
        self._around = around
        self._bare = bare
        self._source = source
        self.inputs = list(inputs)
        self._aliases = aliases
        self.clause = RECORD
        self.parameters: tuple[str, ...] = ()
        """Parameters of the lambda functions around the expression that is translated."""
        self.joined = len(self.inputs) > 1
        self._earlier: dict[str, Expr] = {}
        self._earlier_nodes = 0
        self.nested: list[Input] = []
        """Subqueries that are joined to these inputs. No name in the text refers to them."""
        for one in self.inputs if self.joined else ():
            one.also = ""  # an alias hides the stream's name, so a stream can be joined to itself
        for at, one in enumerate(self.inputs):
            if any(one.answers_to(other.name) for other in self.inputs[:at]):
                raise source.error(
                    f"two inputs are called {one.name}", one.at, f"Name one of them: {one.name} AS other."
                )

    @contextlib.contextmanager
    def within(self, clause: str) -> Iterator[None]:
        """Set the clause of the names that are resolved. Names inside an aggregate are always fields."""
        before, self.clause = self.clause, clause
        try:
            yield
        finally:
            self.clause = before

    @contextlib.contextmanager
    def inside(self, parameters: tuple[str, ...]) -> Iterator[None]:
        """Add the parameters of a lambda function while its body is translated."""
        before, self.parameters = self.parameters, (*self.parameters, *parameters)
        try:
            yield
        finally:
            self.parameters = before

    def qualifies(self, name: str) -> bool:
        return any(one.answers_to(name) for one in self.inputs)

    def is_alias(self, name: str, quoted: bool) -> bool:
        return not quoted and name.lower() in self._aliases

    def define(self, alias: str, expr: Expr) -> None:
        """Make a select item known to the later ones by its alias."""
        self._earlier[alias.lower()] = expr

    def earlier(self, name: str, at: TextPosition) -> Expr | None:
        """Return the earlier select item that a name in a select item means; None: it is not such a name.

        Raises:
            QueryError: the select list becomes too large.
        """
        found = self._earlier.get(name.lower()) if self.clause == ITEM else None
        if found is None or any(one.may_have(name) for one in self.inputs if not one.hidden):
            return None
        self._earlier_nodes += sum(1 for _ in walk(found))
        if self._earlier_nodes > LATERAL_NODES_MAX or _depth(found) > LATERAL_DEPTH_MAX:
            hint = f"Compute {name} in a subquery: SELECT ... FROM (SELECT ... AS {name} ...) t."
            raise self._source.error("too many select items are put into each other", at, hint)
        return found

    def field(self, parts: Sequence[str], quoted: bool, at: TextPosition) -> FieldRef:
        if len(parts) > 1:
            for one in self.nested:
                if one.name == parts[0]:
                    return FieldRef(".".join(parts), True, at=at)
            for one in self.inputs:
                if one.answers_to(parts[0]):
                    return self._of(one, ".".join(parts[1:]), True, at)
            if any(scope.qualifies(parts[0]) for scope in self._around):
                raise self._source.error(
                    f"{parts[0]} belongs to the outer query; a subquery in FROM sees only its own inputs", at,
                    "Join with the query instead: LEFT JOIN (SELECT k, max(x) AS x ... GROUP BY k) t ON ...",
                )  # fmt: skip
        name = ".".join(parts)
        is_alias = len(parts) == 1 and self.is_alias(name, quoted)
        if not self.joined and self.inputs[0].columns is None:
            self._may_be_outside(self.inputs[0], name, at)
            declared = self.inputs[0].declared or ()
            return self._of(self.inputs[0], name, quoted or (name in declared and self.clause != LATE), at)
        if is_alias and self.clause == LATE:
            return FieldRef(name, False, at=at)
        shown = [one for one in self.inputs if not one.hidden]
        having = [one for one in shown if one.find(name) is not None]
        unknown = [one for one in shown if one.columns is None and one.may_have(name)]
        made = [one for one in having if one.made]
        if made:
            having, unknown = made, []
        if is_alias and not having and self.clause == GROUP:
            return FieldRef(name, False, at=at)
        if is_alias and (self._aliases[name.lower()] or (unknown and all(one.declared for one in unknown))):
            is_alias = False
        if len(having) + len(unknown) > 1 or (is_alias and unknown):
            maybe = [*having, *unknown]
            names = " or ".join(f"{one.name}.{name}" for one in maybe if not one.name.startswith("#"))
            hint = f"Write {names}."
            if any(one.name.startswith("#") for one in maybe):
                names = f" or {names}" if names else ""
                hint = f"Give the subquery a name, (SELECT ...) AS q, and write q.{name}{names}."
            raise self._source.error(f"{name} may be a column of several inputs", at, hint)
        if not having and not unknown:
            if is_alias:
                return FieldRef(name, False, at=at)
            known = [column for one in self.inputs for column in one.known or ()]
            message = f"there is no column {name}" if known else f"{NO_FROM}, and names {name}"
            raise self._source.error(message, at, _instead(name, known))
        if unknown:
            self._may_be_outside(unknown[0], name, at)
        return self._of((having or unknown)[0], name, True, at)

    def _may_be_outside(self, one: Input, name: str, at: TextPosition) -> None:
        if self._bare is None or not one.stream or not self._around or name in IMPLICIT:
            return
        others = [each for scope in self._around for each in scope.inputs if each.name != one.name]
        if others:
            names = tuple(f"{each.name}.{name}" for each in (*others, one))
            self._bare.append(Bare(one.stream, name, at, names))

    def structure(self, parts: Sequence[str]) -> int:
        """Return how many names at the start of a path are a known column or an alias with nested fields.

        Returns 0 otherwise.
        """
        if len(parts) < 2:
            return 0
        item = self._earlier.get(parts[0].lower()) if self.clause == LATE else None
        if item is not None and parts[1] in struct_fields(item) and not self.qualifies(parts[0]):
            return 1
        for one in self.inputs:  # an input has priority over a column with its name
            if one.answers_to(parts[0]):
                if one.columns is None or one.find(".".join(parts[1:])) is not None:
                    return 0
                if one.find(parts[1]) is not None:
                    return 2
        for one in self.inputs:
            if one.find(".".join(parts)) is None and one.find(parts[0]) is not None:
                return 1
        return 0

    def stars(self, qualifier: str, at: TextPosition) -> list[FieldRef]:
        """Expand `*` or `input.*`. Raises QueryError if the columns of an input are not known."""
        chosen = self._chosen(qualifier)
        if not chosen:
            raise self._source.error("`.*` works on the stream only", at, "Write * or name the fields.")
        found = []
        for one in chosen:
            columns = one.listed if one.columns is None else one.columns
            if columns is None:
                raise self._source.error(
                    f"* needs the columns of {one.name}, which has no schema", at, "Name the fields."
                )
            found += [self._of(one, column, True, at) for column in columns]
        if not found:
            raise self._source.error(f"{NO_FROM}, and `*` has no columns", at, _instead("*", ()))
        return found

    def is_open(self, qualifier: str) -> bool:
        """Return whether `*` or `input.*` includes columns that are not known."""
        chosen = self._chosen(qualifier)
        return any(one.columns is None and one.listed is None for one in chosen)

    def _chosen(self, qualifier: str) -> list[Input]:
        return [one for one in self.inputs if (one.answers_to(qualifier) if qualifier else not one.hidden)]

    def plain(self, path: str) -> str:
        for one in self.inputs if self.joined else ():
            if path.startswith(f"{one.name}."):
                return path.removeprefix(f"{one.name}.")
        return path

    def error(self, message: str, at: TextPosition, hint: str) -> QueryError:
        return self._source.error(message, at, hint)

    def _of(self, one: Input, name: str, quoted: bool, at: TextPosition) -> FieldRef:
        if one.columns is None:
            one.used[name] = None
        else:
            known = one.find(name)
            if known is None:
                others = [other for other in self.inputs if other is not one and other.find(name)]
                hint = f"Write {others[0].name}.{name}." if others else _instead(name, one.columns)
                raise self._source.error(f"{one.name} has no column {name}", at, hint)
            name = known
        return FieldRef(f"{one.name}.{name}" if self.joined else name, quoted, at=at)


def _depth(expr: Expr) -> int:
    return 1 + max(map(_depth, expr.children), default=0)


def _instead(name: str, known: Sequence[str]) -> str:
    if STAR in known:
        return f"The columns of `*` are not known here: write SELECT {name}, ... in the subquery."
    return suggest(name, known) or (f"There are {', '.join(known)}." if known else "Add FROM stream.")
