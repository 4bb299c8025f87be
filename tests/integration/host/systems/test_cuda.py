# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Every system by its name, on a GPU that two ranks share."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from helpers.aggregator.served import serving
from helpers.device import ways
from helpers.device.rig import DEVICE, RANKS, assert_learns, assert_replicas, every_op, needs_device
from helpers.gloo import systems_cases
from helpers.gloo.ranks import Ranks
from helpers.transport.udp_bridge import job_mapping

pytestmark = needs_device


@pytest.mark.parametrize("kind", ["plain", "ddp", "scaled"])
@pytest.mark.parametrize("over", ["job", "group"])
def test_replicas_stay_equal(tmp_path: Path, over: str, kind: str) -> None:
    names: dict[str, dict[str, Any]] = ways.OVER_A_JOB if over == "job" else systems_cases.SYSTEMS
    fitting = {name: {**one, "rows": 1} if name == "marsit-torus" else one for name, one in names.items()}
    if kind == "scaled":
        # It keeps NaN for good: docs/systems.md.
        fitting.pop("powersgd", None)
    with Ranks(RANKS, tmp_path) as ranks, every_op(tmp_path) as options:
        job = options if over == "job" else None
        outcomes = ranks.run(ways.of_systems, DEVICE, fitting, job, kind, timeout_s=300)
    for name in fitting:
        of_ranks = [outcome[name] for outcome in outcomes]
        assert of_ranks[0]["digest"] == of_ranks[1]["digest"], name
        assert all(math.isfinite(loss) for one in of_ranks for loss in one["losses"]), name
        assert not any(one["changed"] for one in of_ranks), name
        assert [one["scale"] for one in of_ranks] == [512.0 if kind == "scaled" else 1.0] * RANKS, name


@pytest.mark.parametrize(("kind", "early"), [("plain", False), ("ddp", False), ("ddp", True)])
def test_dlcp(tmp_path: Path, kind: str, early: bool) -> None:
    mapping = job_mapping(RANKS, 32, job=40) | {"lanes": [{"job": 40 + lane, "slots": 32} for lane in range(4)]}
    with Ranks(RANKS, tmp_path) as ranks, serving(mapping):
        outcomes = ranks.run(ways.dlcp, DEVICE, mapping, kind, early)
    assert_replicas(outcomes)
    assert_learns(outcomes)
