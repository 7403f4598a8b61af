"""The JSON schema of agent.toml (`elf schema`), generated from the configuration structs.

Types, defaults and bounds come from msgspec; the descriptions come from the docstrings of the structs. `elf
validate` checks what a schema cannot express, such as a loopback address, a size, or a stream with both path
and listen.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import msgspec

from elfmesh.agent.settings import config
from elfmesh.agent.settings.config import AgentConfig
from elfmesh.agent.sinks import config as sinks
from elfmesh.ingest import stream_settings

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ATTRIBUTE = re.compile(r"^(\w+): (.*(?:\n {4,}.*)*)", re.MULTILINE)


def config_schema() -> dict[str, Any]:
    schema = msgspec.json.schema(AgentConfig)
    parts = (config, stream_settings, sinks)
    for name, definition in schema["$defs"].items():
        text = inspect.getdoc(next(vars(part)[name] for part in parts if name in vars(part))) or ""
        head, _, attributes = text.partition("Attributes:\n")
        definition["description"] = " ".join(head.split())
        sentences = dict(_ATTRIBUTE.findall(inspect.cleandoc(attributes)))
        for key, property_schema in definition["properties"].items():
            if key in sentences:
                property_schema["description"] = " ".join(sentences[key].split())
    return {"$schema": DIALECT, "title": "agent.toml of elfmesh", **schema}
