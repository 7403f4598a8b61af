"""One glossary: private nicknames are refused, in names and in sentences."""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CODE = [path for room in ("elfmesh", "tests") for path in sorted((ROOT / room).rglob("*.py"))]
DOCUMENTS = sorted(path for path in (ROOT / "docs").rglob("*.md") if "history" not in path.parts)
HERE = Path(__file__)

EVERYWHERE = (
    "office",
    "carrier",
    "carriers",
    "seat",
    "seats",
    "owed",
    "owes",
    "debt",
    "fate",
    "fates",
    "stillness",
    "haste",
    "charter",
    "desk",
    "doorstep",
    "safekeeping",
    "settlement",
    "keeper",
    "keepers",
    "acquaintances",
    "anew",
    "whoever",
    "anybody",
    "everybody",
    "courtesy",
    "told",
    "heard",
    "said",
)
"""Refused in names; all but the last three, which are ordinary verbs, in prose too."""
VERBS = {"told", "heard", "said"}
OF_TESTS = ("who", "whom", "nobody", "nobodys", "somebody", "say", "says", "tells", "hears")
"""Refused in names of tests: their subject is the component that acts, and it reports, prints or sends."""
OF_MODULES_AND_CLASSES = (
    "latest",
    "home",
    "mark",
    "life",
    "letter",
    "letters",
    "asking",
    "asks",
    "mail",
    "looking",
    "holder",
    "holding",
    "judge",
    "spent",
    "places",
    "pace",
    "turns",
    "hands",
    "door",
    "inquiry",
    "placing",
    "trials",
    "departure",
    "unplaced",
    "beginnings",
    "gathered",
    "cover",
)

FROZEN = {
    "Fates": "a label of the metrics of messages",
    "AskFates": "a label of the metrics of messages",
    "fates": "a tag on the wire",
    "ask_fates": "a tag on the wire",
    "fate": "a key of a dead letter in JSON",
    "seat": "a verb on the wire",
    "second seat": "hashed into the id of a job",
    "other seat": "bytes of a recorded test",
    "Mark": "a label of the metrics of messages",
}
SHARED = {
    "Analysis",
    "Context",
    "Difference",
    "HotTable",
    "Interval",
    "Join",
    "Joined",
    "Joiner",
    "Leading",
    "Leave",
    "Lookup",
    "Membership",
    "Message",
    "Outbox",
    "Part",
    "Records",
    "Results",
    "Revisions",
    "Role",
    "Rows",
    "Sealed",
    "StreamReader",
    "TableSpec",
    "Tally",
    "Trust",
    "Verify",
}
"""Names of several classes, where the module or the room makes the difference plain: messages and events of
two rooms, a context of each core, implementations of one protocol."""
ELSEWHERE = {"fleet": "the office is a machine of the test's fleet, and a desk hands out certificates there"}


POSSIBLE = re.compile("|".join([*EVERYWHERE, "nobody", "somebody"]), re.IGNORECASE)


def parts(name: str) -> list[str]:
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower().strip("_").split("_")


def tokens_of(source: str) -> list[tokenize.TokenInfo]:
    """The tokens of a file; none if no part of it can be refused, because this takes longest."""
    if not POSSIBLE.search(source):
        return []
    return list(tokenize.generate_tokens(io.StringIO(source).readline))


def refused_names(tokens: list[tokenize.TokenInfo]) -> list[str]:
    names = {token.string for token in tokens if token.type == tokenize.NAME} - set(FROZEN)
    return sorted(name for name in names if set(parts(name)) & set(EVERYWHERE))


def refused_tests(source: str) -> list[str]:
    names = re.findall(r"(?m)^[ ]*(?:async )?def (test_\w+)\(", source)
    return [name for name in names if set(parts(name)) & {*EVERYWHERE, *OF_TESTS}]


def refused_prose(text: str) -> list[str]:
    for phrase in sorted(FROZEN, key=len, reverse=True):
        text = re.sub(rf"\b{phrase}\b", "", text)
    words = "|".join(word for word in EVERYWHERE if word not in VERBS)
    return re.findall(rf"(?i)(?<![\w-])(?:{words})(?![\w-])", text)


def prose_of(tokens: list[tokenize.TokenInfo]) -> str:
    return "\n".join(t.string for t in tokens if t.type in {tokenize.COMMENT, tokenize.STRING})


def refused_sentences(tokens: list[tokenize.TokenInfo]) -> list[str]:
    """Comments and docstrings about nobody and somebody; in strings of data both may be names."""
    prose = [t.string for t in tokens if t.type == tokenize.COMMENT or t.string.startswith('"""')]
    return re.findall(r"(?i)\b(?:nobody|somebody)\b", "\n".join(prose))


def classes_of(path: Path) -> list[str]:
    return re.findall(r"(?m)^[ ]*class (\w+)[(:\[]", path.read_text())


def is_exempt(path: Path) -> bool:
    return path == HERE or path.relative_to(ROOT).parts[1] in ELSEWHERE


def test_no_name_and_no_sentence_uses_a_private_nickname() -> None:
    guilty = {
        str(path.relative_to(ROOT)): found
        for path in CODE
        if not is_exempt(path)
        and (
            found := refused_names(tokens := tokens_of(path.read_text()))
            + refused_prose(prose_of(tokens))
            + refused_sentences(tokens)
        )
    }
    assert guilty == {}


def test_names_of_tests_name_the_component_that_acts() -> None:
    guilty = {
        str(path.relative_to(ROOT)): found for path in CODE if (found := refused_tests(path.read_text()))
    }
    assert guilty == {}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_document_uses_a_private_nickname(path: Path) -> None:
    assert refused_prose(path.read_text()) == []


def test_modules_and_classes_have_names_of_the_field() -> None:
    banned = {*EVERYWHERE, *OF_MODULES_AND_CLASSES}
    modules = [str(path.relative_to(ROOT)) for path in CODE if path.stem in banned]
    classes = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in CODE
        for name in classes_of(path)
        if name.lower().strip("_") in banned and name not in FROZEN
    ]
    assert (modules, classes) == ([], [])


def test_a_name_is_that_of_one_class() -> None:
    defined = Counter(
        name
        for path in CODE
        if path.is_relative_to(ROOT / "elfmesh")
        for name in classes_of(path)
        if not name.startswith("_")
    )
    assert {name for name, count in defined.items() if count > 1} == SHARED


def test_what_is_refused_is_found() -> None:
    assert refused_names(tokens_of("carrier = self._owed\nmember_host = told_apart")) == [
        "_owed",
        "carrier",
        "told_apart",
    ]
    assert refused_tests("async def test_who_has_left() -> None:\ndef test_a_seat(") == [
        "test_who_has_left",
        "test_a_seat",
    ]
    assert refused_prose("It begins anew at its other seat.") == ["anew"]
    assert refused_prose("What it was told.") == []
