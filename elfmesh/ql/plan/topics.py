"""Reading of CREATE TOPIC name [FROM stream] DELIVERY ...: the query that a topic stands for.

The tokens of the query have the position of the word after DELIVERY, so that errors refer to the user's text;
the clause of SEALED keeps its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import sqlglot
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from elfmesh.errors import QueryError
from elfmesh.ql.plan.delivery import AUTO, COLUMNS, TopicDelivery, topic_query
from elfmesh.text import suggest

EVERY_US, EARLY_US = 1_000_000, 50_000
"""EVERY of a topic whose order it does not decide, and EARLY of an unordered one."""

AUTO_EVERY = "100 ms"
"""EVERY of a topic for which a program chooses SEQUENCED."""

ORDERED_EVERY_US = 1_000
"""Unit of the numbers of an ordered topic's records, which are about the times of their newest posts."""

_SHAPE = (
    "Write DELIVERY SEQUENCED EVERY '100 ms', DELIVERY ORDERED, DELIVERY SEALED (key WHEN ...) or"
    " DELIVERY UNORDERED."
)
_KEYS = "Write SEALED (campaign WHEN event = 'end' PRODUCERS ONE AFTER '24 h')."
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)

_SKIPS = re.compile(r"\s+ON\s+STRAGGLER\s+SKIP\b", re.IGNORECASE)

Fault = Callable[[str, str], QueryError]
"""Makes the error for the place that is being read."""


def delivery_of(word: str, fault: Fault) -> TopicDelivery:
    """Return the delivery of a word. Raises QueryError if there is no such delivery."""
    known = [each.value for each in TopicDelivery]
    if word == AUTO:
        raise fault("a program chooses DELIVERY AUTO when it applies the topic", _SHAPE)
    if word not in known:
        raise fault(f"there is no DELIVERY {word}".rstrip(), suggest(word, known) or _SHAPE)
    return TopicDelivery(word)


def topic_options(
    delivery: TopicDelivery, given: Mapping[str, int | str], fault: Fault
) -> dict[str, int | str]:
    """Return the options of a topic's job. Raises QueryError if one is missing or has no meaning."""
    if delivery is TopicDelivery.ORDERED:
        if given:
            raise fault(f"ORDERED has no {next(iter(given))}", "Leave it out: no post waits for others.")
        return {"EVERY": ORDERED_EVERY_US}
    if delivery is TopicDelivery.SEQUENCED and "EVERY" not in given:
        raise fault("SEQUENCED needs EVERY, the time after which posts are put in order", _SHAPE)
    if delivery is not TopicDelivery.UNORDERED and "EARLY" in given:
        raise fault(f"{delivery} has no EARLY", "Leave it out, or write DELIVERY UNORDERED.")
    if "KEEP PARTIALS" in given:
        raise fault("a topic has no partial aggregates to keep", "Leave KEEP PARTIALS out.")
    if "STANDBY" in given:
        raise fault("a topic has no STANDBY", "Leave it out.")
    early = {"EARLY": EARLY_US} if delivery is TopicDelivery.UNORDERED else {}
    return {"EVERY": EVERY_US, **early, **given}


def query_tokens(
    delivery: TopicDelivery, at: Token, stream: Token, seal: Sequence[Token], fault: Fault
) -> list[Token]:
    """Return the tokens of a topic's query.

    `at` is the word after DELIVERY, `stream` the name of the stream, `seal` the clause after SEALED with its
    parentheses.
    """
    parts = topic_query(delivery, _keys(seal, fault))
    first, second, third = (_tokens(part, at) for part in parts)
    return [*first, stream, *second, *seal, *third]


def with_delivery(text: str, delivery: TopicDelivery) -> str:
    """Return the text of a topic with a delivery in place of AUTO; another text stays as it is.

    With ON STRAGGLER SKIP, SEQUENCED would leave out the posts of a slow agent. ORDERED waits for no agent
    and leaves nothing out, so it takes its place.
    """
    try:
        tokens = sqlglot.Dialect.get_or_raise("spark").tokenize(text)
    except TokenError:  # the parser reports it
        return text
    words = [token.text.upper() for token in tokens]
    for word, token in zip(words, tokens[1:], strict=False):
        if word == "DELIVERY" and token.text.upper() == AUTO:
            if delivery is TopicDelivery.SEQUENCED and (found := _SKIPS.search(text, token.end)):
                text = text[: found.start()] + text[found.end() :]
                delivery = TopicDelivery.ORDERED
            every = delivery is TopicDelivery.SEQUENCED and "EVERY" not in words
            chosen = f"{delivery} EVERY '{AUTO_EVERY}'" if every else str(delivery)
            return text[: token.start] + chosen + text[token.end + 1 :]
    return text


def _tokens(text: str, at: Token) -> list[Token]:
    found = sqlglot.Dialect.get_or_raise("spark").tokenize(text) if text else []
    return [
        Token(each.token_type, each.text, line=at.line, col=at.col, start=at.start, end=at.end)
        for each in found
    ]


def _keys(seal: Sequence[Token], fault: Fault) -> tuple[str, ...]:
    """Return the fields before WHEN. Raises QueryError unless they are names that a post does not have."""
    keys: list[str] = []
    for number, token in enumerate(seal[1:-1]):
        if token.text.upper() == "WHEN" and number % 2:
            break
        if number % 2 == 0:
            if token.token_type not in _NAMES or token.text in COLUMNS or "`" in token.text:
                raise fault(f"a key of a topic is a field of its posts, not `{token.text}`", _KEYS)
            keys.append(token.text)
        elif token.token_type != TokenType.COMMA:
            raise fault("a key of a topic is a field of its posts, not an expression", _KEYS)
    return tuple(dict.fromkeys(keys))
