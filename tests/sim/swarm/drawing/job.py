"""One job or topic of a seed, and its text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """One job of a seed.

    Attributes:
        name: within the namespace "sim".
        ids: groups by the record's number: a multiset of them; otherwise sums by key.
        slide_s, size_s: between intervals; of one.
        replicas: peers that keep each contribution.
        horizon_s: how long who makes no progress is waited for; None: the job names none.
        early_ms, standby_ms: period of early rows; LAG of standbys of open windows. None: the job has none.
        standbys: which members have a standby, and in which domain, as the text states it.
        enough: records that a group needs (sums by key only).
        sealed: partitions by key end by punctuations of ALL members, or of so many; "": there are windows.
        stated: the partitions are those of the traffic, whose punctuations state their records.
        assume: of ASSUME; "": nothing is assumed.
        summed: least sum of values that a group needs; None: any.
        paths: sites; then the members of each rack are a group. 0: one tree.
        copies, cost: trees of each group, and the bound of the cost of the paths; "": there is none.
        delivery: of a topic whose posts are the lines; "": it is no topic.
        spans: "SESSION", "ROWS" or "WITHIN": rows by key that span intervals; "": they do not.
        rows, step: records of a window of ROWS, and from one to the next.
        within_s: time between two records that a WITHIN joins.
    """

    name: str
    ids: bool
    slide_s: int
    size_s: int
    lateness_s: int
    deadline_s: float
    straggler: str
    partitions: int
    least: int | None
    replicas: int = 0
    horizon_s: float | None = None
    early_ms: int | None = None
    enough: int = 1
    sealed: str = ""
    stated: bool = False
    assume: str = ""
    summed: int | None = None
    standby_ms: int | None = None
    standbys: str = "ALL"
    paths: int = 0
    copies: int = 1
    cost: str = ""
    delivery: str = ""
    spans: str = ""
    rows: int = 0
    step: int = 0
    within_s: int = 0

    @property
    def keeps_state(self) -> bool:
        """Whether the rows of a record depend on earlier intervals."""
        return bool(self.sealed or self.spans)

    @property
    def sealed_from(self) -> int:
        """The least value of a record that is a punctuation, where nothing is stated."""
        return 700

    @property
    def leaves_groups_out(self) -> bool:
        """Whether a group with records may have no row."""
        return self.enough > 1 or self.summed is not None

    @property
    def after_us(self) -> int:
        """How long a partition without a record stays open."""
        return 3 * self.slide_us

    @property
    def slide_us(self) -> int:
        return self.slide_s * 1_000_000

    @property
    def size_us(self) -> int:
        return self.size_s * 1_000_000

    @property
    def text(self) -> str:
        window = f"TUMBLE(ts, INTERVAL '{self.size_s}' SECOND)"
        if self.size_s != self.slide_s:
            window = f"HOP(ts, INTERVAL '{self.slide_s}' SECOND, INTERVAL '{self.size_s}' SECOND)"
        replicas = f" REPLICAS {self.replicas}" if self.replicas else ""
        horizon = f" HORIZON '{self.horizon_s:g} s'" if self.horizon_s is not None else ""
        early = f" EARLY '{self.early_ms} ms'" if self.early_ms is not None else ""
        early += f" ASSUME ({self.assume})" if self.assume else ""
        if self.delivery:
            return f"{self._topic}{horizon}{replicas}{early}"
        replicas += (
            f" STANDBY {self.standbys} LAG '{self.standby_ms} ms'" if self.standby_ms is not None else ""
        )
        early += f" {self._paths}" if self.paths else ""
        head = (
            f"CREATE JOB sim.{self.name} LATENESS '{self.lateness_s} s'"
            f" DEADLINE '{self.deadline_s:g} s'{horizon}"
            f" ON STRAGGLER {self.straggler.upper()} PARTITIONS {self.partitions}{replicas}{early} AS"
        )
        where = f" WHERE v >= {self.least}" if self.least is not None else ""
        if self.sealed:
            head = head.removesuffix(" AS") + f" EVERY '{self.slide_s} s' AS"
            window = f"SEALED(k WHEN {self.sealed_from} <= v PRODUCERS {self.sealed}"
            window += f" AFTER '{3 * self.slide_s} s')"
        if self.stated:
            window = f"SEALED(part WHEN total >= 0 PRODUCERS {self.sealed} RECORDS total"
            window += f" AFTER '{3 * self.slide_s} s')"
            return f"{head} SELECT part, count(*) AS n, sum(id) AS s FROM log GROUP BY {window}"
        if self.spans:
            return self._spanning(head, where)
        if self.ids:
            return f"{head} SELECT id, count(*) AS n FROM log{where} GROUP BY {window}, id"
        having = f" HAVING count(*) >= {self.enough}" if self.enough > 1 else ""
        having = f" HAVING sum(v) >= {self.summed}" if self.summed is not None else having
        aggregates = "count(*) AS n, sum(v) AS s, sum(x) AS f, min(v) AS least, max(v) AS most"
        return f"{head} SELECT k, {aggregates} FROM log{where} GROUP BY {window}, k{having} ORDER BY k"

    @property
    def _paths(self) -> str:
        copies = f", {self.copies}" if self.copies > 1 else ""
        return f"PATHS {self.paths}{copies} ACROSS rack{f' COST {self.cost}' if self.cost else ''}"

    def describe(self) -> str:
        """Return what was drawn, for the log of a run."""
        return (
            f"{self.name} {self.size_s}/{self.slide_s} s, lateness {self.lateness_s} s,"
            f" deadline {self.deadline_s:g} s, {self.straggler}, {self.partitions} partitions,"
            f" {self.replicas} replicas, standby {self.standby_ms}"
            + (f" of {self.standbys}" if self.standbys != "ALL" else "")
            + (f", sealed by {self.sealed}" + ", stated" * self.stated if self.sealed else "")
            + (f", assumes {self.assume}" if self.assume else "")
            + (f", a topic that is {self.delivery}" if self.delivery else "")
            + (f", {self._paths}" if self.paths else "")
            + (
                f", {self.spans} {self.rows or ''} {self.step or ''} {self.within_s or ''}"
                if self.spans
                else ""
            )
        )

    def _spanning(self, head: str, where: str) -> str:
        every = head.removesuffix(" AS") + f" EVERY '{self.slide_s} s' AS"
        if self.spans == "WITHIN":
            joined = f"ON a.k = b.k AND a.id < b.id WITHIN INTERVAL '{self.within_s}' SECOND"
            return f"{every} SELECT a.id AS id, b.id AS other FROM log a JOIN log b {joined}"
        window = f"SESSION(ts, INTERVAL '{self.slide_s}' SECOND)"
        if self.spans == "ROWS":
            head, window = every, f"ROWS({self.rows}, {self.step})"
        columns = "k, window_start, window_end, count(*) AS n, sum(id) AS s"
        return f"{head} SELECT {columns} FROM log{where} GROUP BY {window}, k"

    @property
    def _topic(self) -> str:
        seal = f" (k WHEN {self.sealed_from} <= v PRODUCERS {self.sealed} AFTER '{3 * self.slide_s} s')"
        return (
            f"CREATE TOPIC sim.{self.name} FROM log DELIVERY {self.delivery}{seal if self.sealed else ''}"
            f" EVERY '{self.slide_s} s' LATENESS '{self.lateness_s} s' DEADLINE '{self.deadline_s:g} s'"
            f" ON STRAGGLER {self.straggler.upper()} PARTITIONS {self.partitions}"
        )
