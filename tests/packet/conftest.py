# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Every packet test runs on both engines of the soft switch in process, side by side, on its program over veth, and on
bmv2 over veth; and those that need no Ethernet and no tree on both forms of the software aggregator."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest
from helpers.needs import missing
from helpers.packet import rigs
from helpers.packet.aggregator_rig import AggregatorRig
from helpers.packet.play import Game, Rig

ALL_RIGS = [
    pytest.param("engines", id="soft-engines"),
    pytest.param("numpy", id="aggregator-numpy"),
    pytest.param("kernel", id="aggregator-native", marks=pytest.mark.cc),
    pytest.param("soft-veth", id="soft-veth", marks=pytest.mark.root),
    pytest.param("bmv2", id="bmv2", marks=[pytest.mark.root, pytest.mark.bmv2]),
]


@pytest.fixture(scope="session")
def engines(request: pytest.FixtureRequest) -> Iterator[rigs.EnginesRig]:
    """Both engines; the Python engine alone on a machine without a compiler for the other."""
    what = missing("cc")
    if what and request.config.getoption("--require-cc"):
        pytest.fail(f"--require-cc: {what}", pytrace=False)
    coverage = request.config.getoption("--p4-coverage")
    with rigs.engines("python") if what else rigs.engines("python", "native", coverage=coverage) as rig:
        yield rig


@pytest.fixture(scope="session", params=ALL_RIGS)
def rig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    if request.param == "engines":
        yield request.getfixturevalue("engines")
        return
    if request.param in ("numpy", "kernel"):
        yield AggregatorRig(native=request.param == "kernel")
        return
    command = rigs.soft_command if request.param == "soft-veth" else rigs.bmv2_command
    log = tmp_path_factory.mktemp(request.param) / "switch.log"
    with rigs.over_veth(request.param, command, log) as rig:
        yield rig


@pytest.fixture
def game(rig: Rig) -> Game:
    """A new game. When its test has passed, the switch must also have counted what the model counted."""
    return Game(rig)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Function) -> Generator[None]:
    yield
    if isinstance(game := item.funcargs.get("game"), Game):
        game.check_counters()
