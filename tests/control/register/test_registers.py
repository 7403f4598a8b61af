"""The registers of one agent."""

from __future__ import annotations

import pytest

from elfmesh.control.register.registers import Registers
from tests.control.register.support import (
    Held,
    context,
)


def test_an_even_number_of_voters_is_misuse() -> None:
    own_registers = context()
    with pytest.raises(ValueError, match="odd"):
        Registers(own_registers, Held(own_registers), 4)
