# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sizes of well-known models under ACP-SGD, derived from the layers' shapes apart from this code."""

from __future__ import annotations

import pytest
from helpers.paths import ROOT
from sumwire.errors import UsageError
from sumwire.lowrank import shapes
from sumwire.lowrank.shapes import MEGABYTE

# rank; million parameters; MB of M, P, Q; MB of the thresholds of P and Q; groups of P and Q; M over the mean of P and
# Q, over their sum; tensors, matrices, uncompressed groups.
GOLDEN = {
    "resnet50": (4, "25.56", "97.49", "0.627", "1.045", "0.161", "0.268", 4, 4, "116.6", "58.3", 161, 54, 5),
    "resnet152": (4, "60.19", "229.62", "1.752", "3.170", "0.191", "0.345", 10, 10, "93.3", "46.7", 467, 156, 10),
    "bert-base": (32, "110.11", "420.04", "14.693", "11.103", "0.874", "0.661", 15, 25, "32.6", "16.3", 206, 78, 16),
    "bert-large": (32, "336.23", "1282.62", "32.398", "28.874", "0.631", "0.563", 73, 73, "41.9", "20.9", 398, 150, 50),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_sizes(name: str) -> None:
    found = shapes.sizes(name)
    assert (
        shapes.RANKS[name],
        f"{found.parameters / 1e6:.2f}",
        f"{found.dense_bytes / MEGABYTE:.2f}",
        f"{found.p_bytes / MEGABYTE:.3f}",
        f"{found.q_bytes / MEGABYTE:.3f}",
        f"{found.p_threshold / MEGABYTE:.3f}",
        f"{found.q_threshold / MEGABYTE:.3f}",
        found.p_groups,
        found.q_groups,
        f"{found.ratio:.1f}",
        f"{found.ratio_both:.1f}",
        found.tensors,
        found.matrices,
        found.dense_groups,
    ) == GOLDEN[name]


def test_table_of_the_docs_is_golden() -> None:
    text = (ROOT / "docs" / "acp.md").read_text()
    titles = {"resnet50": "ResNet-50", "resnet152": "ResNet-152", "bert-base": "BERT-Base", "bert-large": "BERT-Large"}
    for name, (rank, parameters, m, p, q, _, _, p_groups, q_groups, ratio, *_) in GOLDEN.items():
        row = f"| {titles[name]} | {rank} | {parameters} M | {m} | {p} | {q} | {p_groups}, {q_groups} | {ratio} |"
        assert row in text


def test_names_are_those_of_one_tensor_each() -> None:
    for name in GOLDEN:
        names = [tensor for tensor, _ in shapes.model_shapes(name)]
        assert len(set(names)) == len(names)


def test_shortcut_comes_last_in_the_first_block_of_a_stage() -> None:
    names = [tensor for tensor, _ in shapes.model_shapes("resnet50")]
    assert names.index("layer1.0.downsample.0.weight") == names.index("layer1.1.conv1.weight") - 3
    assert sum("downsample.0" in tensor for tensor in names) == 4


def test_unknown_model_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"'vgg'.*resnet50, resnet152, bert-base, bert-large"):
        shapes.sizes("vgg")
