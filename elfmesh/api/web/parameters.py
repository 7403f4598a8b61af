"""Parses the parameters of a route as the record of its verb declares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

import msgspec

from elfmesh.control.answers import seconds
from elfmesh.control.master.result_service import WAIT_S_MAX
from elfmesh.control.requests.verbs import Fields
from elfmesh.errors import UsageError


def parameters(kind: type[Fields], query: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields in a query and the defaults of the others. Raises UsageError."""
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        text, value = query.get(field.encode_name), field.default
        if text is not None:
            try:
                value = msgspec.convert(text, field.type, strict=False)
            except msgspec.ValidationError:
                what = "0 or 1" if field.type is bool else "a number"
                if get_origin(field.type) is Literal:
                    what = " or ".join(filter(None, get_args(field.type)))
                raise UsageError(f"{field.encode_name}={text!r} is not {what}") from None
        if value is msgspec.NODEFAULT:
            raise UsageError(f"the parameter {field.encode_name} is missing")
        if field.name == "wait" and value is not None:
            try:
                value = seconds(value, WAIT_S_MAX)
            except ValueError:
                raise UsageError(f"wait={text!r} is not a number") from None
        if value is not None:
            found[field.encode_name] = value
    return found
