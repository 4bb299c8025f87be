# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Control plane of Sumwire: YAML -> table entries -> switches, over P4Runtime.

One switch is a `Config`, a network of switches a `Topology`. `load_any(path)`, `load_config(path)`,
`load_topology(path)`, the same with `parse_` for a text, `configs_of(topology)` and `job_description(either, name)`
need no network; `apply(config)`, `apply_topology(topology)`, `apply_all(configs)`, `read_status(config)` and
`read_topology_status(topology)` load gRPC on first use,
and so does `Watch(configs)`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_EXPORTS = {
    "apply": "deploy.operations",
    "apply_all": "deploy.operations",
    "apply_topology": "deploy.operations",
    "read_status": "deploy.operations",
    "read_all_status": "deploy.operations",
    "read_topology_status": "deploy.operations",
    "Watch": "deploy.watch",
    "load_any": "parse.load",
    "parse_any": "parse.load",
    "load_config": "parse.parse",
    "parse_config": "parse.parse",
    "load_topology": "parse.topology_parse",
    "parse_topology": "parse.topology_parse",
    "configs_of": "derive.derive",
    "check_together": "rules.together",
    "job_description": "derive.jobfile",
    "job_json": "derive.jobfile",
    "Config": "model.config",
    "Topology": "model.topology",
    "ConfigError": "errors",
    "ControllerError": "errors",
}


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_EXPORTS[name]}"), name)
