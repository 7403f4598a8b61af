"""Programs are read from their syntax trees: what is declared, what is silent, and hostile files."""

from __future__ import annotations

import pytest

from elfmesh.control.coordination.declared import SOURCE_BYTES_MAX, DeclaredProgram, read_programs
from elfmesh.errors import DataError, QueryError

QUERY = "CREATE JOB shop.top EVERY '1 s' AS SELECT u, count(*) AS n FROM clicks GROUP BY u"


def read(text: str) -> list[DeclaredProgram]:
    return read_programs(text.encode(), "f.py")


def shown(program: DeclaredProgram) -> dict[str, str]:
    return {str(each): str(each.annotation) for each in program.paths}


def test_a_program_has_its_jobs_name_and_its_declared_paths() -> None:
    (found,) = read(f"""
import elfmesh as e
class Top(e.Job):
    query = {QUERY!r}
    @e.path("results", "multicast", "OW", by=("u",), why="the newest wins")
    @e.path("results", "insert:coupons", "CW", idempotent=True)
    async def on_result(self, result): ...
""")
    assert (found.name, found.component) == ("shop/top", "shop.top (program)")
    assert found.statement is not None
    assert shown(found) == {"results -> multicast": "OW (u)", "results -> insert:coupons": "CW"}
    assert [(each.idempotent, each.why, each.at.line) for each in found.paths] == [
        (False, "the newest wins", 5),
        (True, "", 6),
    ]
    assert found.silent == ()


def test_a_callback_without_a_path_reaches_what_it_calls() -> None:
    (found,) = read("""
from elfmesh import Job as J, path
class Base(J):
    async def on_route(self, message):
        return await self.other()
    async def other(self):
        await self.insert([], stream="coupons")
class P(Base):
    name = "a/p"
    async def on_result(self, result):
        await self.send_to("top", [])
    @path("timer", "outside", "CR")
    async def on_timer(self): await self.route("b/q", 1)
""")[1:]
    assert shown(found) == {
        "results -> send_to:top": "OW (unknown)",
        "timer -> outside": "CR",
        "route -> insert:coupons": "OW (unknown)",
        "route -> answer": "OW (unknown)",
    }
    assert [(name, at.line) for name, at in found.silent] == [("on_result", 10), ("on_route", 4)]


def test_a_callback_that_passes_self_on_reaches_all_methods() -> None:
    (found,) = read("""
import elfmesh
class P(elfmesh.Job):
    async def on_result(self, result): await work(self)
    async def later(self): await self.multicast(1)
""")
    assert shown(found) == {"results -> multicast": "OW (unknown)"}


def test_other_classes_are_no_programs() -> None:
    assert read("class Job: ...\nclass A(Job):\n  def on_result(self, r): ...") == []
    assert read("class A(B):\n  def on_result(self, r): ...\nclass B(A): ...") == []


@pytest.mark.parametrize(
    ("decorator", "message"),
    [
        ('"results", "multicast", NAME', "must be constants"),
        ('"results", "multicast"', "missing 1 required"),
        ('"results", "multicast", 3', "names are texts"),
        ('"result", "multicast", "CW"', "no input 'result'"),
        ('"results", "elsewhere", "CW"', "no output 'elsewhere'"),
        ('"results", "multicast", "XX"', "unknown label 'XX'"),
        ('"results", "multicast", "CW", by=("a",)', "has no partitions"),
        ('"timer", "multicast", "CW"', "on_result does not handle timer"),
        ('"results", "multicast", "CW", more=1', "unexpected keyword"),
        ("*names", "must be constants"),
    ],
)
def test_a_wrong_declaration_is_refused_with_its_line(decorator: str, message: str) -> None:
    text = "import elfmesh\nclass P(elfmesh.Job):\n  @elfmesh.path({})\n  def on_result(self, r): ..."
    with pytest.raises(DataError, match=message) as caught:
        read(text.format(decorator))
    assert caught.value.where == "f.py:3:4"


@pytest.mark.parametrize(
    "data",
    [
        b"x = 1\n" * (10 << 20 >> 2),
        b"(" * 100_000,
        b"x = " + b"-" * 100_000 + b"1",
        b"x = 1" + b" + 1" * 60_000,
        b"x" + b".a" * 100_000,
        b"[" * 150 + b"]" * 150,
        b"x = 1\0",
        b"\xff\xfe",
        b"# coding: nothing\n",
        b"def f(:\n",
        b"if 1:\n" + b"".join(b" " * at + b"if 1:\n" for at in range(1, 110)) + b" " * 110 + b"1",
    ],
    ids=[
        "large", "parentheses", "signs", "sums", "attributes", "lists", "NUL", "binary", "coding", "syntax",
        "blocks",
    ],
)  # fmt: skip
def test_hostile_files_are_refused_in_one_line_or_have_no_program(data: bytes) -> None:
    refused = ""
    try:
        assert read_programs(data, "f.py") == []
    except DataError as error:
        refused = str(error)
    assert "\n" not in refused
    assert refused.startswith("f.py:") or not refused


def test_warnings_of_the_parser_are_not_shown(recwarn: pytest.WarningsRecorder) -> None:
    assert read_programs(b"x = 1if 1else 2\ny = '\\d'", "f.py") == []
    assert list(recwarn) == []


def test_a_large_file_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(DataError, match="KiB of Python"):
        read_programs(b"#" * (SOURCE_BYTES_MAX + 1), "f.py")


def test_a_file_is_not_run() -> None:
    assert read("raise SystemExit(3)\nimport elfmesh\nclass P(elfmesh.Job):\n  name = 1 / 0") == []


def test_a_wrong_query_is_refused_with_the_class() -> None:
    with pytest.raises(QueryError, match=r"f\.py \(P\.query\)"):
        read("import elfmesh\nclass P(elfmesh.Job):\n  query = 'SELEKT 1'")
