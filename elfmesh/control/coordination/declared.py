"""Reads the paths that programs declare from their syntax trees.

The text of a program is hostile and is never run. A callback that is overridden and declares no path may do
anything: it is OW with an unknown gate, towards each verb that it reaches in its class.

Paper: Blazes IV-A (grey box).
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from elfmesh.control.coordination.graph import AnnotatedPath, Place
from elfmesh.control.coordination.labels import annotated
from elfmesh.control.coordination.statements import shown
from elfmesh.control.jobs.program_paths import CALLBACKS, POST, ProgramPath, check_callback, least_delivery
from elfmesh.errors import DataError, QueryError, UsageError
from elfmesh.ql import parse
from elfmesh.ql.plan.statement import Statement
from elfmesh.ql.plan.topics import with_delivery

SOURCE_BYTES_MAX = 256 << 10
"""Maximum size of a program's text. A syntax tree takes a thousand times as much memory."""

_VERBS = ("multicast", "send_to", "route", "insert", "post")
_ARGUMENTS = ("source", "target", "label")


@dataclass(frozen=True, slots=True)
class DeclaredProgram:
    """Program of a file.

    Attributes:
        name: "namespace/name".
        statement: its ELF-QL job, if its text is a constant.
        paths: declared paths, and one for each verb of a callback without any.
        silent: callbacks without a declaration.
    """

    name: str
    statement: Statement | None
    paths: tuple[AnnotatedPath, ...]
    silent: tuple[tuple[str, Place], ...]
    at: Place

    @property
    def component(self) -> str:
        return f"{shown(self.name)} (program)"


def read_programs(data: bytes, file: str) -> list[DeclaredProgram]:
    """Return the programs whose classes a Python file defines, without running it.

    Raises:
        DataError: the file is no Python, is too large or too deep, or declares a wrong path.
        QueryError: the ELF-QL text of a program is wrong.
    """
    if len(data) > SOURCE_BYTES_MAX:
        raise DataError(f"more than {SOURCE_BYTES_MAX >> 10} KiB of Python", where=f"{file}:1")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about its literals, to the terminal
            tree = ast.parse(data)
    except SyntaxError as error:
        raise DataError(f"not Python: {error.msg}", where=f"{file}:{error.lineno or 1}") from None
    except ValueError as error:  # a NUL
        raise DataError(f"not Python: {error}", where=f"{file}:1") from None
    except (RecursionError, MemoryError):
        raise DataError("not Python: nested too deeply", where=f"{file}:1") from None
    return [each for each in _Classes(tree, file).programs() if each.paths or each.statement]


class _Classes:
    """Classes of a file that derive from `elfmesh.Job`, by their names."""

    def __init__(self, tree: ast.Module, file: str) -> None:
        self.file = file
        self.bases = {"elfmesh.Job"}
        self.decorators = {"elfmesh.path"}
        self.classes: dict[str, ast.ClassDef] = {}
        for node in ast.walk(tree):
            match node:
                case ast.Import(names=names):
                    for each in names:
                        if each.name == "elfmesh" and each.asname:
                            self.bases.add(f"{each.asname}.Job")
                            self.decorators.add(f"{each.asname}.path")
                case ast.ImportFrom(module="elfmesh", names=names):
                    self.bases |= {each.asname or each.name for each in names if each.name == "Job"}
                    self.decorators |= {each.asname or each.name for each in names if each.name == "path"}
                case ast.ClassDef():
                    self.classes.setdefault(node.name, node)

    def programs(self) -> Iterator[DeclaredProgram]:
        for node in self.classes.values():
            line = self._line(node)
            if line:
                yield self._program(line)

    def _line(self, node: ast.ClassDef) -> list[ast.ClassDef]:
        """Return a class and those of the file from which it derives, if the last one is a program."""
        found = [node]
        while True:
            names = [_dotted(each) for each in found[-1].bases]
            if self.bases & set(names):
                return found
            base = next((self.classes[name] for name in names if name in self.classes), None)
            if base is None or base in found:
                return []
            found.append(base)

    def _program(self, line: Sequence[ast.ClassDef]) -> DeclaredProgram:
        values: dict[str, str] = {}
        topics: list[str] = []
        callbacks: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        for node in line:
            for each in node.body:
                match each:
                    case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(value))):
                        values.setdefault(name, value)
                    case ast.Assign(targets=[ast.Name(id="topics")], value=value):
                        topics = topics or _texts(value)
                    case ast.FunctionDef() | ast.AsyncFunctionDef() if each.name in CALLBACKS:
                        callbacks.setdefault(each.name, each)
        paths: list[AnnotatedPath] = []
        silent = []
        for callback, function in callbacks.items():
            declared = [self._declared(each, callback) for each in function.decorator_list]
            known = [each for each in declared if each is not None]
            at = Place(self.file, function.lineno, function.col_offset + 1)
            if not known:
                silent.append((callback, at))
                verbs = list(dict.fromkeys(_verbs(line, function)))
                verbs += ["answer"] if callback == "on_route" else []
                inputs = (
                    [f"{POST}{each}" for each in topics] if callback == "on_post" else [CALLBACKS[callback]]
                )
                known = [
                    AnnotatedPath(source, verb, annotated("OW"), (), why=_silent(callback),
                                  at=at, remedy=f"annotate {callback} with @elfmesh.path")
                    for source in inputs for verb in verbs or ["outside"]
                ]  # fmt: skip
            paths += known
        statement = None
        if query := values.get("query"):
            follows = [not each.annotation.order_sensitive for each in paths if each.source.startswith(POST)]
            statement = self._query(with_delivery(query, least_delivery(follows)), line[0].name)
        name = values.get("name") or (statement.job.qualified if statement and statement.job else "")
        name = name or line[0].name
        return DeclaredProgram(
            name, statement, tuple(_apart(paths)), tuple(silent),
            Place(self.file, line[0].lineno, line[0].col_offset + 1),
        )  # fmt: skip

    def _query(self, text: str, owner: str) -> Statement:
        try:
            return parse(text, source=f"{self.file} ({owner}.query)")
        except RecursionError:
            raise QueryError(
                "the query is nested too deeply", source=f"{self.file} ({owner}.query)"
            ) from None

    def _declared(self, node: ast.expr, callback: str) -> AnnotatedPath | None:
        """Return the path that a decorator declares; None if it is another decorator."""
        if not isinstance(node, ast.Call) or _dotted(node.func) not in self.decorators:
            return None
        at = Place(self.file, node.lineno, node.col_offset + 1)
        try:
            given = dict(zip(_ARGUMENTS, map(ast.literal_eval, node.args), strict=False))
            given |= {str(each.arg): ast.literal_eval(each.value) for each in node.keywords}
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            raise DataError("the arguments of elfmesh.path must be constants", where=str(at)) from None
        try:
            found = _program_path(given)
            check_callback(found, callback)
        except (TypeError, UsageError) as error:
            raise DataError(f"elfmesh.path: {error}", where=str(at)) from None
        gates = [found.by] if found.by else []
        return AnnotatedPath(
            found.source, found.target, annotated(found.label, *gates), (), found.idempotent, found.why, at
        )


def _program_path(given: Mapping[str, Any]) -> ProgramPath:
    by = given.get("by", ())
    texts = [given.get(name, "") for name in (*_ARGUMENTS, "why")]
    if not isinstance(by, tuple | list) or not all(isinstance(each, str) for each in (*texts, *by)):
        raise UsageError("names are texts")
    return ProgramPath(**{**given, "by": tuple(by)})


def _texts(node: ast.expr) -> list[str]:
    """Return the texts of a tuple or list of constants."""
    found = node.elts if isinstance(node, ast.Tuple | ast.List) else []
    return [each.value for each in found if isinstance(each, ast.Constant) and isinstance(each.value, str)]


def _silent(callback: str) -> str:
    return f"{callback} is not annotated"


def _apart(paths: Iterable[AnnotatedPath]) -> Iterator[AnnotatedPath]:
    """Yield one path for each pair of ends: the most severe."""
    found: dict[tuple[str, str], AnnotatedPath] = {}
    for each in paths:
        before = found.get((each.source, each.target))
        if before is None or before.annotation.severity < each.annotation.severity:
            found[each.source, each.target] = each
    return iter(found.values())


def _dotted(node: ast.AST) -> str:
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) else ""


def _verbs(line: Sequence[ast.ClassDef], callback: ast.AST) -> Iterator[str]:
    """Yield the outputs that a callback reaches: calls of verbs in it and in the methods that it names.

    Where `self` is passed on, all methods of the class are reached.
    """
    methods: dict[str, ast.AST] = {}
    for node in (each for one in line for each in one.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            methods.setdefault(node.name, node)
    seen: set[int] = set()
    fresh: list[ast.AST] = [callback]
    while fresh:
        method = fresh.pop()
        if id(method) in seen:
            continue
        seen.add(id(method))
        own = set[int]()
        for inner in ast.walk(method):
            match inner:
                case ast.Attribute(value=ast.Name(id="self") as name, attr=attr):
                    own.add(id(name))
                    fresh += [methods[attr]] if attr in methods else []
                case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=attr)) if attr in _VERBS:
                    yield _output(inner, attr)
        names = {id(each) for each in ast.walk(method) if isinstance(each, ast.Name) and each.id == "self"}
        if names - own:
            fresh += methods.values()


def _output(call: ast.Call, verb: str) -> str:
    """Return the output of a call of a verb, with its group, program or stream if that is a constant."""
    if verb == "multicast":
        return verb
    named = next((each.value for each in call.keywords if each.arg == "stream"), None)
    match named if verb == "insert" else call.args[0] if call.args else None:
        case ast.Constant(value=str(text)):
            return f"{verb}:{text}"
    return f"{verb}:*"
