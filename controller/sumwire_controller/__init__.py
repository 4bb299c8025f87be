# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Control plane of Sumwire: reads YAML files, checks them, and writes the table entries of switches over P4Runtime.

A `Config` describes one switch, a `Topology` a network of switches. The folders, each of which imports only from those
before it: `model` (the data), `derive` (what follows from it), `rules` (what it must keep), `parse` (YAML files),
`deploy` (the switches).

Names are loaded on first use: only `apply`, `apply_all`, `apply_topology`, `read_status`, `read_all_status`,
`read_topology_status` and `Watch` import gRPC.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sumwire_controller.deploy.operations import apply as apply
    from sumwire_controller.deploy.operations import apply_all as apply_all
    from sumwire_controller.deploy.operations import apply_topology as apply_topology
    from sumwire_controller.deploy.operations import read_all_status as read_all_status
    from sumwire_controller.deploy.operations import read_status as read_status
    from sumwire_controller.deploy.operations import read_topology_status as read_topology_status
    from sumwire_controller.deploy.watch import Watch as Watch
    from sumwire_controller.derive.jobs import job_description as job_description
    from sumwire_controller.derive.jobs import job_json as job_json
    from sumwire_controller.derive.topology import configs_of as configs_of
    from sumwire_controller.errors import ConfigError as ConfigError
    from sumwire_controller.errors import ControllerError as ControllerError
    from sumwire_controller.model import Config as Config
    from sumwire_controller.model import Topology as Topology
    from sumwire_controller.parse.files import load_any as load_any
    from sumwire_controller.parse.files import load_config as load_config
    from sumwire_controller.parse.files import load_topology as load_topology
    from sumwire_controller.parse.files import parse_any as parse_any
    from sumwire_controller.parse.files import parse_config as parse_config
    from sumwire_controller.parse.files import parse_topology as parse_topology
    from sumwire_controller.rules.agreement import check_together as check_together

_HOMES: Final = {
    "Config": "model",
    "ConfigError": "errors",
    "ControllerError": "errors",
    "Topology": "model",
    "Watch": "deploy.watch",
    "apply": "deploy.operations",
    "apply_all": "deploy.operations",
    "apply_topology": "deploy.operations",
    "check_together": "rules.agreement",
    "configs_of": "derive.topology",
    "job_description": "derive.jobs",
    "job_json": "derive.jobs",
    "load_any": "parse.files",
    "load_config": "parse.files",
    "load_topology": "parse.files",
    "parse_any": "parse.files",
    "parse_config": "parse.files",
    "parse_topology": "parse.files",
    "read_all_status": "deploy.operations",
    "read_status": "deploy.operations",
    "read_topology_status": "deploy.operations",
}

if not TYPE_CHECKING:  # so that the type checker knows the names above and no others

    def __getattr__(name: str) -> Any:
        """Load a public name from its module."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(_HOMES)
