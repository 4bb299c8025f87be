# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What `sumwire inspect` shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sumwire import cli
from sumwire.dlcp import layers
from sumwire.dlcp.tags import LayerMagnitude
from sumwire.errors import UsageError

MODULE = """
from torch import nn

def model():
    network = nn.Sequential(nn.Linear(1024, 10, bias=False), nn.Linear(1024, 30))
    network.register_parameter("frozen", nn.Parameter(network[0].weight.detach().clone(), requires_grad=False))
    return network

def shapes():
    return [("in.weight", (1024, 10)), ("out.weight", (1024, 30)), ("out.bias", (30,))]

def nonsense():
    return 7

def empty():
    return []

class Last:
    priorities = (4, 2)
    def priority(self, position):
        return 4 if position > 0.5 else 2
    def drop_classes(self, position, magnitudes):
        return (magnitudes < 3).astype("uint8") * 2

policy = Last
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MODULE)
    return path


@pytest.mark.parametrize("source", ["model", "shapes"])
def test_layers_front_to_back(module: Path, source: str) -> None:
    found = layers.rows(layers.shapes_of(f"{module}:{source}"), LayerMagnitude.for_lanes(2), 2)
    assert [(row.values, row.packets, row.lane, row.priority) for row in found] == [
        (10240, 10, 0, 7),
        (30750, 31, 1, 3),
    ]
    # The middles of values 0..10240 and 10240..40990.
    assert [row.position for row in found] == pytest.approx([5120 / 40990, 25615 / 40990])
    for row in found:
        assert sum(row.shares) == pytest.approx(1)
    # The front layer's packets are dropped first.
    assert found[0].shares[3] > found[1].shares[3] and found[0].shares[0] < found[1].shares[0]


def test_parameters_one_by_one(module: Path) -> None:
    found = layers.rows(layers.shapes_of(f"{module}:shapes"), LayerMagnitude.for_lanes(2), 2, by_parameter=True)
    assert [row.layer for row in found] == ["in.weight", "out.weight", "out.bias"]
    assert found[2].shares == (1.0, 0.0, 0.0, 0.0), "its only packet is its largest"


def test_totals_of_lanes() -> None:
    shapes = [("a.weight", (10, 1024)), ("b.weight", (10, 1024)), ("c.weight", (20, 1024))]
    policy = LayerMagnitude((7, 3), (0.5, 0, 0, 0.5), (0.5, 0, 0, 0.5))
    totals = layers.by_lane(layers.rows(shapes, policy, 2), 2)
    assert [(row.layer, row.values, row.packets, row.shares) for row in totals] == [
        ("lane 0", 20480, 20, (0.5, 0.0, 0.0, 0.5)),
        ("lane 1", 20480, 20, (0.5, 0.0, 0.0, 0.5)),
    ]


@pytest.mark.parametrize(
    ("name", "values"), [("resnet50", 25_557_032), ("ResNet152", 60_192_808), ("bert-large", None)]
)
def test_known_models(name: str, values: int | None) -> None:
    found = layers.rows(layers.shapes_of(name), LayerMagnitude(), 4)
    assert values is None or sum(row.values for row in found) == values
    lanes = [row.lane for row in found]
    assert lanes == sorted(lanes) and set(lanes) == {0, 1, 2, 3}
    for total in layers.by_lane(found, 4):
        assert total.values > sum(row.values for row in found) / 8, "no lane is nearly empty"


def test_command(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", f"{module}:shapes", "--lanes", "2"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split()[:6] == ["layer", "values", "packets", "position", "lane", "priority"]
    assert printed[1].split()[:6] == ["in", "10,240", "10", "0.12", "0", "7"]
    assert printed[-1].split()[:4] == ["lane", "1", "30,750", "31"]


def test_a_policy_of_the_users(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["inspect", f"{module}:shapes", "--lanes", "2", "--policy", f"{module}:policy", "--json"]
    assert cli.main(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["priority"] for row in found["layers"]] == [2, 4]
    # Magnitudes are taken to be 10, 9 ... 1.
    assert found["layers"][0]["shares"] == [0.8, 0.0, 0.2, 0.0]


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["resnet18"], "model 'resnet18': must be one of resnet50, resnet152, bert-base, bert-large"),
        (["{}:missing"], "has no callable 'missing'"),
        (["{}:nonsense"], "neither a module nor pairs"),
        (["{}:empty"], "has no parameters"),
        (["/nowhere.py:model"], "/nowhere.py is no Python file"),
        (["resnet50", "--lanes", "9"], "lanes = 9: must be 1..8"),
        (["resnet50", "--lanes", "3", "--policy", "{}:policy"], "lane 2 of 3 has none"),
    ],
)
def test_refusals(module: Path, arguments: list[str], rule: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", *(argument.format(module) for argument in arguments)]) == 1
    assert rule in capsys.readouterr().err


def test_shapes_need_pairs(module: Path) -> None:
    with pytest.raises(UsageError, match="neither a module"):
        layers.shapes_of(f"{module}:nonsense")
