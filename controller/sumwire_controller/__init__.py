# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Control plane of Sumwire: reads YAML files, checks them, and writes the table entries of switches over P4Runtime.

A `Config` describes one switch, a `Topology` a network of switches. The folders, each of which imports only from those
before it: `model` (the data), `derive` (what is computed from it), `rules` (its validity), `parse` (YAML files),
`deploy` (the switches).

Names are loaded on first use: only `apply`, `apply_all`, `apply_topology`, `read_status`, `read_all_status`,
`read_topology_status`, `with_slots_of` and `Watch` import gRPC.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from commonlib.facade import on_first_use

if TYPE_CHECKING:
    from sumwire_controller.deploy.operations import apply as apply
    from sumwire_controller.deploy.operations import apply_all as apply_all
    from sumwire_controller.deploy.operations import apply_topology as apply_topology
    from sumwire_controller.deploy.operations import read_all_status as read_all_status
    from sumwire_controller.deploy.operations import read_status as read_status
    from sumwire_controller.deploy.operations import read_topology_status as read_topology_status
    from sumwire_controller.deploy.operations import with_slots_of as with_slots_of
    from sumwire_controller.deploy.watch import Watch as Watch
    from sumwire_controller.derive.jobs import job_description as job_description
    from sumwire_controller.derive.jobs import job_json as job_json
    from sumwire_controller.derive.topology import configs_of as configs_of
    from sumwire_controller.errors import ConfigError as ConfigError
    from sumwire_controller.errors import ControllerError as ControllerError
    from sumwire_controller.errors import NoFreeSlotsError as NoFreeSlotsError
    from sumwire_controller.model import Config as Config
    from sumwire_controller.model import Topology as Topology
    from sumwire_controller.parse.files import load_any as load_any
    from sumwire_controller.parse.files import load_config as load_config
    from sumwire_controller.parse.files import load_topology as load_topology
    from sumwire_controller.parse.files import parse_any as parse_any
    from sumwire_controller.parse.files import parse_config as parse_config
    from sumwire_controller.parse.files import parse_topology as parse_topology
    from sumwire_controller.rules.agreement import check_together as check_together

__getattr__, __dir__ = on_first_use(
    globals(),
    lambda home: import_module(f"{__name__}.{home}"),
    {
        "deploy.operations": (
            "apply apply_all apply_topology read_all_status read_status read_topology_status with_slots_of"
        ),
        "deploy.watch": "Watch",
        "derive.jobs": "job_description job_json",
        "derive.topology": "configs_of",
        "errors": "ConfigError ControllerError NoFreeSlotsError",
        "model": "Config Topology",
        "parse.files": "load_any load_config load_topology parse_any parse_config parse_topology",
        "rules.agreement": "check_together",
    },
)
