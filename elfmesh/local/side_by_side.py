"""Parses and evaluates the blocks of a run in several threads, and returns them in the order of the input.

The rows, samples and errors are those of one thread for every number of threads, because only what depends on
one block takes place out of order: parsing, filters and expressions. A block is parsed by a branch of its
file's parser while earlier blocks are in work. When its turn comes, the parser takes over what the branch has
learned (the types of JSON fields). If the parser has learned something else since the branch was made, the
block is parsed again.

One block at a time is parsed, in its turn, if its parser has a state that each block changes, reads records
of several lines, or does not yet know the format or header of its file (`Parser.side_by_side`).
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from elfmesh.ingest.parsers import Parsed, Parser
from elfmesh.ingest.sources.parsing import parse_block
from elfmesh.local.log_source import Turn
from elfmesh.ql.engine.block import BlockRows

THREADS_MAX = 8
"""Default at most: one thread aggregates the rows of about as many as parse, and each holds a block."""


def default_threads() -> int:
    """Return one thread for each core that this process may use, within `THREADS_MAX`."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, THREADS_MAX)


def side_by_side(
    turns: Iterator[Turn],
    threads: int,
    fields: Callable[[str], Sequence[str] | None],
    parse: Callable[[Turn], Parsed],
    evaluate: Callable[[Parsed, str], BlockRows | None] | None = None,
) -> Generator[tuple[Turn, Parsed]]:
    """Yield each block with its rows, in order. An error of `turns` is raised after the blocks before it.

    Args:
        turns: the blocks in the order of the input; at most `threads` + 1 are held at a time.
        threads: number of threads that parse.
        fields: the columns to parse of a stream; None while they are unknown.
        parse: parses a block in its turn.
        evaluate: computes values of a stream's rows before their turn, for `Turn.records`.
    """
    waiting: deque[Turn] = deque()
    error: Exception | None = None
    more = True
    with ThreadPoolExecutor(threads, "elf-parse") as pool:
        try:
            while True:
                while more and len(waiting) <= threads and (not waiting or waiting[-1].branch is not None):
                    try:
                        turn = next(turns, None)
                    except Exception as raised:
                        error, turn = raised, None
                    if turn is None:
                        more = False
                        break
                    columns = fields(turn.block.stream or turn.source.stream)
                    if columns is not None and turn.source.parser.side_by_side:
                        turn.branch = turn.source.parser.branch()
                        turn.attempt = pool.submit(_attempt, turn, turn.branch, columns, evaluate)
                    waiting.append(turn)
                if not waiting:
                    break
                turn = waiting.popleft()
                yield turn, _taken(turn) or parse(turn)
            if error is not None:
                raise error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _attempt(
    turn: Turn,
    branch: Parser,
    columns: Sequence[str],
    evaluate: Callable[[Parsed, str], BlockRows | None] | None,
) -> Parsed | None:
    try:
        parsed = parse_block(branch, turn.block, columns, turn.lines)
        for name in parsed.arrays:  # the columns are built here, not by the thread that aggregates
            _ = parsed.arrays[name]
    except Exception:  # the block is parsed again in its turn, which raises the error at its place
        return None
    if evaluate is not None:
        with contextlib.suppress(Exception):  # as above: the values are computed again
            turn.records = evaluate(parsed, turn.block.stream or turn.source.stream)
    return parsed


def _taken(turn: Turn) -> Parsed | None:
    """Return what the branch has parsed, if it is what the file's parser would parse."""
    if turn.attempt is None or turn.branch is None:
        return None
    parsed = turn.attempt.result()
    if parsed is not None and turn.source.parser.accept(turn.branch):
        return parsed
    turn.records = None
    return None
