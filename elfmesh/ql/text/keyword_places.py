"""Places of INTERVAL, TRUE, FALSE and NULL, which sqlglot does not keep.

The nodes of a kind stand in the order of the text, so the n-th node is that of the n-th keyword. If their
numbers differ, the nodes have no place, and an error is at what stands around them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

_KEYWORDS: dict[type[exp.Expr], tuple[TokenType, ...]] = {
    exp.Interval: (TokenType.INTERVAL,),
    exp.Boolean: (TokenType.TRUE, TokenType.FALSE),
    exp.Null: (TokenType.NULL,),
}


def place_keywords(tree: exp.Expr, tokens: Sequence[Token]) -> None:
    """Note the offsets of the keywords in the nodes; in an INTERVAL, also its text as it is written."""
    nodes = list(_in_order(tree))
    for kind, types in _KEYWORDS.items():
        found = [node for node in nodes if isinstance(node, kind)]
        places = [at for at, token in enumerate(tokens) if token.token_type in types]
        for node, at in zip(found, places, strict=True) if len(found) == len(places) else ():
            node.meta["start"] = tokens[at].start
            after = tokens[at + 1] if at + 1 < len(tokens) else None
            if kind is exp.Interval and after is not None and after.token_type == TokenType.STRING:
                node.meta["written"] = after.text


def _in_order(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the nodes in the order of the text. sqlglot has WITH behind the query that it precedes."""
    rest = [node]
    while rest:
        each = rest.pop()
        yield each
        below = list(each.iter_expressions())
        below.sort(key=lambda one: not isinstance(one, exp.With))
        rest += reversed(below)
