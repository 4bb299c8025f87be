# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Settings that must be refused where a user gives them, with the reason in the error's text."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import sumwire_controller
import yaml
from sumwire.dlcp.tags import LayerMagnitude, check_priorities
from sumwire.transport.delivery import Delivery

from sumwire_lab.network import control_plane
from sumwire_lab.network.fabric import plan
from sumwire_lab.options.run_options import LinkOptions
from sumwire_lab.study.check import Check, holds

_ORDERLY: Final[dict[str, Any]] = {
    "port": 1,
    "rate_mbit": 20.0,
    "mark_bytes": 20_000,
    "drop_bytes": [10_000, 40_000, 60_000, 80_000],
    "drop_all_bytes": 120_000,
}


def load(queue: dict[str, Any]) -> None:
    """Have the controller read a configuration with this virtual queue."""
    fabric = plan(2, LinkOptions(), "x")
    nobody = {switch.name: control_plane.NO_SWITCH for switch in fabric.switches}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / control_plane.CONFIGURATION
        path.write_text(
            yaml.safe_dump(control_plane.configuration(fabric, nobody, control_plane.training_job(fabric), [queue]))
        )
        sumwire_controller.load_config(path)


def refused(label: str, give: Callable[[], object], reason: str) -> Check:
    """Call `give`; the check holds if that raises an error whose text has the reason."""
    try:
        give()
    except (ValueError, sumwire_controller.ConfigError) as error:
        return holds(
            f"bad input: {label}", str(error).strip().splitlines()[-1], "refused with the reason", reason in str(error)
        )
    return holds(f"bad input: {label}", "taken", "refused with the reason", False)


def checks() -> list[Check]:
    """One check for each bad setting. Good settings are tried first; an error there ends the experiment."""
    load(_ORDERLY)
    LayerMagnitude.for_lanes(4)
    Delivery(loss_bound=0.0)
    disorder = [10_000, 60_000, 40_000, 80_000]
    return [
        refused("p = 1", lambda: Delivery(loss_bound=1.0), "loss_bound = 1.0"),
        refused("p = -0.01", lambda: Delivery(loss_bound=-0.01), "loss_bound = -0.01"),
        refused("a priority map with a hole", lambda: check_priorities({0: 7, 1: 5, 3: 1}, 4), "lane 2"),
        refused("thresholds out of order", lambda: load(_ORDERLY | {"drop_bytes": disorder}), "drop_bytes"),
    ]
