# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The files of the compiled program: reads them, and checks that both are of one build."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, Final

from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from sumwire_protocol import program

from sumwire_controller.errors import ArtifactError

CURE: Final = "compile the program: make p4, or name the folder of another: --p4 DIR"


def read_artifacts(folder: Path) -> tuple[Any, bytes]:
    """P4Info and the JSON for the switch.

    :raises ArtifactError: a file is missing, is not what its name says, or the two are of different builds.
    """
    path = folder / program.P4INFO_NAME
    try:
        p4info = _p4info(path.read_bytes())
        path = folder / program.JSON_NAME
        device_config = path.read_bytes()
        compiled = json.loads(device_config)
    except OSError as error:
        raise ArtifactError(f"{error.filename}: {error.strerror}; {CURE}") from error
    except text_format.ParseError as error:
        raise ArtifactError(f"{path}: not P4Info: {error}; {CURE}") from error
    except (ValueError, RecursionError) as error:  # also text that is not UTF-8, or is nested too deeply
        raise ArtifactError(f"{path}: not readable: {error}; {CURE}") from error
    differing = _difference(p4info, compiled)
    if differing:
        names = f"{program.P4INFO_NAME} and {program.JSON_NAME}"
        raise ArtifactError(f"{folder}: {names} are not of one build: {differing}; {CURE}")
    return p4info, device_config


@functools.lru_cache(maxsize=1)
def _p4info(text: bytes) -> Any:
    """The last one is kept: for every switch of a network the same is read."""
    p4info = p4info_pb2.P4Info()
    text_format.Parse(text.decode(), p4info)
    return p4info


def _difference(p4info: Any, compiled: Any) -> str:
    """What P4Info has otherwise than the JSON, in words; empty if nothing."""
    try:
        tables = {table["name"]: table for pipeline in compiled["pipelines"] for table in pipeline["tables"]}
        keys = {name: [key["name"] for key in table["key"]] for name, table in tables.items()}
        actions = {
            action["name"]: [(data["name"], data["bitwidth"]) for data in action["runtime_data"]]
            for action in compiled["actions"]
        }
    except (KeyError, TypeError):
        return "the JSON is not what p4c makes for bmv2"
    for table in p4info.tables:
        if keys.get(table.preamble.name) != [field.name for field in table.match_fields]:
            return f"table {table.preamble.name}"
    for action in p4info.actions:
        parameters = [(parameter.name, parameter.bitwidth) for parameter in action.params]
        if actions.get(action.preamble.name, []) != parameters:
            return f"action {action.preamble.name}"
    return ""
