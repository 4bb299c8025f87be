# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The child process of :mod:`sumwire_lab.study.workers`: `python -P -m sumwire_lab.study.call CALL.json [RANK]`."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import pkgutil
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

from commonlib import logs

from sumwire_lab.options.plain import from_json, to_json
from sumwire_lab.study.workers import Rank, WorkerCall, at_place
from sumwire_lab.system.processes import end_with_parent, leave


def function_of(name: str) -> Callable[..., Any]:
    """Return the function with a name `module:function` or `file.py:function`."""
    where, _, function = name.rpartition(":")
    if not where.endswith(".py"):
        found: Callable[..., Any] = pkgutil.resolve_name(name)
        return found
    spec = importlib.util.spec_from_file_location(Path(where).stem, where)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return typing.cast("Callable[..., Any]", getattr(module, function))


def main(arguments: list[str]) -> None:
    end_with_parent()
    if os.environ.get(logs.VARIABLE) == logs.Form.JSON:
        logs.uncaught_to_stderr()
    call = from_json(WorkerCall, json.loads(Path(arguments[0]).read_text()))
    rank: Rank = at_place(call, int(arguments[1] if len(arguments) > 1 else os.environ["RANK"]))
    function = function_of(call.function)
    parameters = list(inspect.signature(function).parameters)
    hint = typing.get_type_hints(function).get(parameters[0], Any)
    argument = from_json(hint, call.argument)
    answer = function(argument) if len(parameters) == 1 else function(argument, rank)
    partial = Path(f"{rank.answer}.part")
    partial.write_text(json.dumps(to_json(answer)))
    partial.replace(rank.answer)
    leave()


if __name__ == "__main__":
    main(sys.argv[1:])
