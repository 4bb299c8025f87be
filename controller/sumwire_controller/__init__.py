# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Control plane of Sumwire: YAML -> table entries -> switch, over P4Runtime.

`load_config(path)`, `parse_config(text)`, `job_description(config, name)` need no network; `apply(...)` and
`read_status(...)` load gRPC on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_EXPORTS = {
    "apply": "operations",
    "read_status": "operations",
    "load_config": "parse",
    "parse_config": "parse",
    "job_description": "jobfile",
    "job_json": "jobfile",
    "Config": "config",
    "ConfigError": "errors",
    "ControllerError": "errors",
}


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_EXPORTS[name]}"), name)
