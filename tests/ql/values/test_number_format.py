"""Number formats of to_char and to_number. The expected texts and numbers are a real Spark's."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest

from elfmesh.ql.values.number_format import NumberFormatError, number_format


@pytest.mark.parametrize(
    ("value", "form", "wanted"),
    [
        ("12.34", "999.99", " 12.34"),
        ("0.05", "999.99", "  0.05"),
        ("12", "999", " 12"),
        ("123.45", "MI$9G99D99s", " $1,23.45+"),
        ("1000", "MI$9G999.s", " $1,000+ "),
        ("-12345.67", "MI999.9s", "-###.#-"),
        ("0.5", "$99G99.s", "$## ##+ "),
        ("-7", "99S", " 7-"),
        ("12345", "99", "##"),
        ("-12.5", "9999.9PR", "  <12.5>"),
        ("12.5", "99.9PR", "12.5  "),
        ("0", "99", "  "),
        ("1234", "0000000", "0001234"),
        ("-34.5", "S0,000.00", "-0,034.50"),
    ],
)
def test_a_number_is_written_as_spark_writes_it(value: str, form: str, wanted: str) -> None:
    assert number_format(form).text(Decimal(value)) == wanted


@pytest.mark.parametrize(
    ("text", "form", "wanted"),
    [
        ("1,234", "9,999", "1234"),
        ("454.2", "000.0", "454.2"),
        ("$78.12", "$00.00", "78.12"),
        ("-454", "S000", "-454"),
        ("12,454.8-", "00,000.9MI", "-12454.8"),
        ("<00,454.8>", "00,000.9PR", "-454.8"),
        ("0.00001-", "9.999999S", "-0.000010"),
        (".0", "99999999.99999999", "0.00000000"),
        (".01-", "99.99S", "-0.01"),
        ("34,50", "999,99", "3450"),
        ("1 2", "99", "12"),
        ("１２", "99", "12"),
        ("1\u00a02", "99", None),
        ("12", "9", None),
        ("1", "00", None),
        ("1,2", "99", None),
        ("12-", "99", None),
        ("<12", "99PR", None),
        ("12>", "99PR", None),
        ("12", "$99", None),
        ("", "99", None),
        ("x", "9", None),
    ],
)
def test_a_number_is_read_as_spark_reads_it(text: str, form: str, wanted: str | None) -> None:
    assert number_format(form).value(text) == (None if wanted is None else Decimal(wanted))


def test_what_is_written_is_read_again() -> None:
    rng = random.Random(5)
    for _ in range(2000):
        value = Decimal(rng.randint(-999_999, 999_999)).scaleb(-rng.randint(0, 2))
        form = number_format(rng.choice(["S9G999G999D99", "9,999,999.99MI", "0000000.00PR", "MI$9999999.00"]))
        text = form.text(value)
        assert form.value(text.replace(" ", "")) == value, (value, form, text)


@pytest.mark.parametrize(
    "form",
    ["", "S", "9S9", "S9S", "MI9MI", "9$", ".9$", ",9", "9,", "9,,9", "9.9,9", "9.9.9", "99x",
     "9 9", "9" * 39],
)  # fmt: skip
def test_what_is_no_format_is_refused(form: str) -> None:
    with pytest.raises(NumberFormatError, match="number format"):
        number_format(form)
