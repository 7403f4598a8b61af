"""Functions of other SQL are refused by their names."""

from __future__ import annotations

import pytest

from elfmesh.errors import QueryError
from elfmesh.ql import parse
from elfmesh.ql.expressions.foreign_functions import FOREIGN_FUNCTIONS
from elfmesh.ql.text.refusing import OURS


def test_no_function_of_elf_ql_is_in_the_table_of_those_it_does_not_have() -> None:
    assert not set(OURS) & set(FOREIGN_FUNCTIONS)


def test_every_function_of_the_table_is_refused_by_its_name() -> None:
    for name in FOREIGN_FUNCTIONS:
        with pytest.raises(QueryError) as caught:
            parse(f"SELECT k,\n {name}(a) FROM s")
        error = caught.value
        assert (error.message, error.line, error.column) == (f"ELF-QL has no function {name}", 2, 2)
        assert error.hint.endswith((".", "$$"))
