# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Every packet test runs on both engines of the soft switch in process, on its program over veth, and on bmv2 over
veth; and those that need no Ethernet and no tree on both forms of the software aggregator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.packet import rigs
from helpers.packet.aggregator_rig import AggregatorRig
from helpers.packet.play import Rig

ALL_RIGS = [
    pytest.param("python", id="soft-python"),
    pytest.param("native", id="soft-native", marks=pytest.mark.cc),
    pytest.param("numpy", id="aggregator-numpy"),
    pytest.param("kernel", id="aggregator-native", marks=pytest.mark.cc),
    pytest.param("soft-veth", id="soft-veth", marks=pytest.mark.root),
    pytest.param("bmv2", id="bmv2", marks=[pytest.mark.root, pytest.mark.bmv2]),
]


@pytest.fixture(scope="session", params=ALL_RIGS)
def rig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    if request.param in ("python", "native"):
        with rigs.soft_in_process(request.param) as rig:
            yield rig
        return
    if request.param in ("numpy", "kernel"):
        yield AggregatorRig(native=request.param == "kernel")
        return
    command = rigs.soft_command if request.param == "soft-veth" else rigs.bmv2_command
    log = tmp_path_factory.mktemp(request.param) / "switch.log"
    with rigs.over_veth(request.param, command, log) as rig:
        yield rig
