"""Aggregates of ELF-QL: the states that each needs in the tables, and the expression over them.

An aggregate consists of one or more *states* (laws of `cbt.laws` over values of the records) or of a *fold*
over a table of distinct values, and of an expression over these. Aggregates share states: avg(x), sum(x) and
stddev(x) use one count.

Paper: ELF 2.2 (a job reduces PAOs and shows a function of them).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from elfmesh.errors import QueryError
from elfmesh.ql.expressions.nodes import Aggregate, Call, Expr, FieldRef, Literal

ONE = Literal("bigint", 1)
NULL = Literal("null", None)
COLLECT_DEFAULT = 100
COLLECT_MAX, COUNTERS_MAX, TOP_DEFAULT, TOP_COUNTERS = 10_000, 10_000, 5, 1000
ACCURACY_MAX = 1240
"""Maximum accuracy of a kll sketch: with k of at most 4,096 it cannot separate ranks closer than 1 / this."""
_KLL_ERROR = 3.3
_THETA_LOG_MIN, _THETA_LOG_MAX, _THETA_LOG = 4, 14, 12


class Reduction(Protocol):
    """Interface through which a builder adds states and folds to the reduction of a statement."""

    @property
    def time(self) -> FieldRef: ...

    def state(self, kind: str, *values: Expr) -> Expr:
        """Return the finished column of a law over values of the records.

        Without values, the law is over the records.
        """
        ...

    def fold(self, how: str, args: tuple[Expr, ...], where: Expr | None, ranks: tuple[float, ...]) -> Expr:
        """Return the column of a fold over the distinct values of each group; see `folds`."""
        ...

    def error(self, expr: Expr, message: str, hint: str = "") -> QueryError: ...


Builder = Callable[[Reduction, Aggregate], Expr]


class Form(Struct, frozen=True):
    """Entry of one aggregate: argument counts (`most` None: no limit), signature, builder, DISTINCT."""

    least: int
    most: int | None
    signature: str
    build: Builder
    distinct: bool = False


AGGREGATES: dict[str, Form] = {}


def aggregate(
    names: str, least: int = 1, most: int | None = -1, *, signature: str = "$(x)", distinct: bool = False
) -> Callable[[Builder], Builder]:
    def enter(build: Builder) -> Builder:
        for name in names.split():
            limit = least if most == -1 else most
            AGGREGATES[name] = Form(least, limit, signature.replace("$", name), build, distinct)
        return build

    return enter


def reduce(reduction: Reduction, node: Aggregate) -> Expr:
    return AGGREGATES[node.kind].build(reduction, node)


def when(conditions: list[Expr], value: Expr) -> Expr:
    if not conditions:
        return value
    test = conditions[0]
    for condition in conditions[1:]:
        test = Call("and", (test, condition))
    return Call("case", (test, value, NULL))


def filtered(node: Aggregate, value: Expr, *conditions: Expr) -> Expr:
    return when([*([] if node.where is None else [node.where]), *conditions], value)


PLAIN_NUMBERS = "number"
"""Option of a "sum input" that takes no INTERVAL."""


def _present(value: Expr) -> Expr:
    return Call("not", (Call("is null", (value,)),))


def _number(node: Aggregate, value: Expr) -> Expr:
    return Call("sum input", (value,), PLAIN_NUMBERS, at=node.at)


# -- parameters


def constant(reduction: Reduction, node: Aggregate, at: int, kinds: str, what: str) -> Literal | None:
    """Return argument `at` as a literal of one of these kinds; None if it is absent. Raises QueryError."""
    if at >= len(node.args):
        return None
    arg = node.args[at]
    if not isinstance(arg, Literal) or arg.kind not in kinds.split():
        wanted = "a whole number" if kinds == "bigint" else "a constant"
        raise reduction.error(arg, f"{what} of {node.kind} must be {wanted}", f"Write {_signature(node)}.")
    return arg


def integer(reduction: Reduction, node: Aggregate, at: int, what: str, span: tuple[int, int]) -> int | None:
    given = constant(reduction, node, at, "bigint", what)
    if given is None:
        return None
    assert isinstance(given.value, int)
    if not span[0] <= given.value <= span[1]:
        raise reduction.error(
            given,
            f"{what} of {node.kind} must be from {span[0]} to {span[1]}, not {given.value}",
            f"Write {span[0]} or more, and at most {span[1]}.",
        )
    return given.value


def _ranks(reduction: Reduction, node: Aggregate, at: int) -> tuple[tuple[float, ...], bool]:
    arg = node.args[at]
    several = isinstance(arg, Call) and arg.name == "array"
    given = arg.children if several else (arg,)
    ranks = []
    for one in given:
        share = one.value if isinstance(one, Literal) and one.kind in ("bigint", "double") else None
        if share is None or not 0 <= float(share) <= 1:
            raise reduction.error(
                one, f"{node.kind} takes a constant share from 0 to 1", f"Write {_signature(node)}."
            )
        ranks.append(float(share))
    if not ranks:
        raise reduction.error(arg, f"{node.kind} takes at least one share", f"Write {_signature(node)}.")
    return tuple(ranks), several


def with_parameter(kind: str, parameter: int | None, default: int) -> str:
    return kind if parameter in (None, default) else f"{kind}:{parameter}"


def _signature(node: Aggregate) -> str:
    return AGGREGATES[node.kind].signature


# -- counts, sums, extremes


@aggregate("count", 1, None, signature="$(*), $(x) or $(DISTINCT x)", distinct=True)
def _count(reduction: Reduction, node: Aggregate) -> Expr:
    if node.distinct:
        return reduction.fold("count", node.args, node.where, ())
    present = [arg for arg in node.args if not (isinstance(arg, Literal) and arg.kind != "null")]
    if not present and node.where is None:
        return reduction.state("count")
    if len(present) > 1:
        return reduction.state("count", filtered(node, ONE, *map(_present, present)))
    return reduction.state("count", filtered(node, present[0] if present else ONE))


@aggregate("count_if", signature="$(condition)")
def _count_if(reduction: Reduction, node: Aggregate) -> Expr:
    return reduction.state("count", filtered(node, ONE, Call("is true", node.args)))


@aggregate("sum try_sum", distinct=True)
def _sum(reduction: Reduction, node: Aggregate) -> Expr:
    number = Call("sum input", node.args[:1], at=node.at)
    if node.distinct:
        return reduction.fold("sum", (number,), node.where, ())
    return reduction.state("sum", filtered(node, number))


@aggregate("avg mean try_avg", distinct=True)
def _average(reduction: Reduction, node: Aggregate) -> Expr:
    number: Expr = Call("sum input", node.args[:1], at=node.at)
    if node.distinct:
        whole, count = (reduction.fold(how, (number,), node.where, ()) for how in ("sum", "count"))
    else:
        number = filtered(node, number)
        whole, count = reduction.state("sum", number), reduction.state("count", number)
    return Call("average", (whole, count), at=node.at)


@aggregate("min max", distinct=True)
def _extreme(reduction: Reduction, node: Aggregate) -> Expr:
    return reduction.state(node.kind, filtered(node, node.args[0]))


@aggregate("bool_and every bool_or some any", signature="$(condition)", distinct=True)
def _boolean(reduction: Reduction, node: Aggregate) -> Expr:
    kind = "min" if node.kind in ("bool_and", "every") else "max"
    return reduction.state(kind, filtered(node, Call("condition", node.args, at=node.at)))


@aggregate("variance var_samp var_pop stddev std stddev_samp stddev_pop")
def _spread(reduction: Reduction, node: Aggregate) -> Expr:
    value = filtered(node, Call("spread input", node.args, at=node.at))
    parts = (reduction.state("variance", value), reduction.state("count", value))
    return Call("spread", parts, node.kind, at=node.at)


@aggregate("covar_pop covar_samp corr", 2, signature="$(x, y)")
def _together(reduction: Reduction, node: Aggregate) -> Expr:
    values = [Call("cast", (_number(node, arg),), "DOUBLE", at=node.at) for arg in node.args]
    both = [filtered(node, value, *map(_present, values)) for value in values]
    parts = [reduction.state("covariance", *both), reduction.state("count", both[0])]
    if node.kind == "corr":
        parts += [reduction.state("variance", value) for value in both]
    return Call("togetherness", tuple(parts), node.kind, at=node.at)


@aggregate("bit_and bit_or bit_xor", distinct=True)
def _bits(reduction: Reduction, node: Aggregate) -> Expr:
    """Fold the values with their counts, because only an odd number of equal values changes bit_xor."""
    how = f"{node.kind} distinct" if node.distinct else node.kind
    return reduction.fold(how, (Call("bits input", node.args, node.kind, at=node.at),), node.where, ())


# -- values of single records


BY_TIME = ("first", "first_value", "last", "last_value")  # these need the event time of records


@aggregate(" ".join(BY_TIME), 1, 2, signature="$(x[, true to ignore nulls])")
def _by_time(reduction: Reduction, node: Aggregate) -> Expr:
    """Order records by a third argument, else by the event time of the input.

    Records without a time come last.
    """
    flag = constant(reduction, node, 1, "bool", "whether to ignore nulls")
    kind = "first" if node.kind.startswith("first") else "last"
    value, time = node.args[0], Call("event time", node.args[2:] or (reduction.time,), kind)
    ignore = [_present(value)] if flag is not None and flag.value else []
    return reduction.state(kind, value, filtered(node, time, *ignore))


@aggregate("min_by max_by", 2, signature="$(x, y)")
def _by_order(reduction: Reduction, node: Aggregate) -> Expr:
    value, order = node.args[0], Call("order input", node.args[1:], at=node.at)
    return reduction.state("first" if node.kind == "min_by" else "last", value, filtered(node, order))


@aggregate("any_value", distinct=True)
def _any_value(reduction: Reduction, node: Aggregate) -> Expr:
    return reduction.state("min", filtered(node, node.args[0]))


# -- percentiles, exact over a table of values with their counts


@aggregate("median")
def _median(reduction: Reduction, node: Aggregate) -> Expr:
    return reduction.fold("percentile", (_number(node, node.args[0]),), node.where, (0.5,))


@aggregate("percentile", 2, signature="$(x, 0.99) or $(x, array(0.5, 0.99))")
def _percentile(reduction: Reduction, node: Aggregate) -> Expr:
    ranks, several = _ranks(reduction, node, 1)
    how = "percentiles" if several else "percentile"
    return reduction.fold(how, (_number(node, node.args[0]),), node.where, ranks)


@aggregate("percentile_cont percentile_disc", 2, 3, signature="$(0.99) WITHIN GROUP (ORDER BY x)")
def _percentile_of_order(reduction: Reduction, node: Aggregate) -> Expr:
    ranks, several = _ranks(reduction, node, 1)
    if several:
        raise reduction.error(node.args[1], f"{node.kind} takes one share", f"Write {_signature(node)}.")
    how = "percentile" if node.kind == "percentile_cont" else "percentile_disc"
    how += " falling" if len(node.args) == 3 else ""
    return reduction.fold(how, (_number(node, node.args[0]),), node.where, ranks)


@aggregate("mode")
def _mode(reduction: Reduction, node: Aggregate) -> Expr:
    return reduction.fold("mode", node.args, node.where, ())


# -- sketches


@aggregate("approx_count_distinct")
def _approximate_count(reduction: Reduction, node: Aggregate) -> Expr:
    return Call("hll count", (reduction.state("hll", filtered(node, node.args[0])),), at=node.at)


@aggregate("hll_sketch_agg", 1, 2, signature="$(x[, 12])")
def _hll(reduction: Reduction, node: Aggregate) -> Expr:
    integer(reduction, node, 1, "the logarithm of the registers", (12, 12))
    return reduction.state("hll", filtered(node, node.args[0]))


@aggregate("theta_sketch_agg", 1, 2, signature="$(x[, log2 of the entries])")
def _theta(reduction: Reduction, node: Aggregate) -> Expr:
    span = (_THETA_LOG_MIN, _THETA_LOG_MAX)
    log = integer(reduction, node, 1, "the logarithm of the entries", span)
    kind = with_parameter("theta", None if log is None else 1 << log, 1 << _THETA_LOG)
    return reduction.state(kind, filtered(node, node.args[0]))


@aggregate("kll_sketch_agg_double", 1, 2, signature="$(x[, k])")
def _kll(reduction: Reduction, node: Aggregate) -> Expr:
    k = integer(reduction, node, 1, "the k", (8, 4096))
    return reduction.state(with_parameter("kll", k, 200), filtered(node, _number(node, node.args[0])))


def _sketch(node: Aggregate) -> Expr:
    return filtered(node, Call("sketch input", node.args[:1], node.kind, at=node.at))


@aggregate("frequent_items_sketch_agg", 1, 2, signature="$(x[, counters])")
def _frequent(reduction: Reduction, node: Aggregate) -> Expr:
    counters = integer(reduction, node, 1, "the counters", (1, COUNTERS_MAX))
    return reduction.state(with_parameter("frequent", counters, TOP_COUNTERS), filtered(node, node.args[0]))


@aggregate("hll_union_agg", signature="$(sketch)")
def _hll_union(reduction: Reduction, node: Aggregate) -> Expr:
    return reduction.state("hllmerge", _sketch(node))


@aggregate("theta_union_agg", 1, 2, signature="$(sketch[, log2 of the entries])")
def _theta_union(reduction: Reduction, node: Aggregate) -> Expr:
    log = integer(reduction, node, 1, "the logarithm of the entries", (_THETA_LOG_MIN, _THETA_LOG_MAX))
    entries = None if log is None else 1 << log
    return reduction.state(with_parameter("thetamerge", entries, 1 << _THETA_LOG), _sketch(node))


@aggregate("kll_merge_agg_double", 1, 2, signature="$(sketch[, k])")
def _kll_merge(reduction: Reduction, node: Aggregate) -> Expr:
    k = integer(reduction, node, 1, "the k", (8, 4096))
    return reduction.state(with_parameter("kllmerge", k, 200), _sketch(node))


@aggregate(
    "approx_percentile percentile_approx", 2, 3, signature="$(x, 0.99[, accuracy]) or $(x, array(0.5, 0.99))"
)
def _approximate_percentile(reduction: Reduction, node: Aggregate) -> Expr:
    ranks, several = _ranks(reduction, node, 1)
    accuracy = integer(reduction, node, 2, "the accuracy", (1, ACCURACY_MAX))
    k = None if accuracy is None else min(max(8, -int(-_KLL_ERROR * accuracy // 1)), 4096)
    value = filtered(node, _number(node, node.args[0]))
    # A sketch stores doubles only, so the greatest value is added for its type.
    parts = (reduction.state(with_parameter("kll", k, 200), value), reduction.state("max", value))
    option = ("[" if several else "") + " ".join(map(repr, ranks))
    return Call("kll quantile", parts, option, at=node.at)


@aggregate("approx_top_k", 1, 3, signature="$(x[, k[, counters]])")
def _top(reduction: Reduction, node: Aggregate) -> Expr:
    k = integer(reduction, node, 1, "k", (1, COUNTERS_MAX)) or TOP_DEFAULT
    counters = integer(reduction, node, 2, "the counters", (1, COUNTERS_MAX)) or max(TOP_COUNTERS, k)
    if counters < k:
        raise reduction.error(node.args[2], f"{counters} counters cannot name {k} values", "Ask for fewer.")
    top = reduction.state(with_parameter("top", counters, TOP_COUNTERS), filtered(node, node.args[0]))
    return Call("head of list", (top,), str(k), at=node.at)
