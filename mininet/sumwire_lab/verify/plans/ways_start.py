# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-ways` on the way from a wheel to the first training."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from sumwire_lab.experiments import ways_lines
from sumwire_lab.options.ways_options import WaysOptions
from sumwire_lab.study.check import Check, absent
from sumwire_lab.study.experiment import Say
from sumwire_lab.verify.plan import Experiment
from sumwire_lab.verify.processes import measured_by, run_tests
from sumwire_lab.verify.rows import trust
from sumwire_lab.verify.rows import ways_start as rows

_WHEEL: Final = "tests/system/test_wheel.py"
_START: Final = "tests/system/test_start.py"
# 64 ranks, and what tests and a quick try have.
NODES, QUICK_NODES = (8, 8), (2, 4)
# Workers and leaves of a tree, and how often it is measured.
TREE: Final = (8, 2)
TURNS, QUICK_TURNS = 3, 1
QUICK_EPOCHS: Final = 2


def experiments(results: Path, say: Say, options: WaysOptions) -> Mapping[str, Experiment]:
    """By row."""
    return {
        "wheel": partial(
            _tests, "the wheel in an environment with its dependencies: commands, a switch, four ranks", _WHEEL
        ),
        "empty": partial(
            _tests, "wheel and torch from the package index in an empty environment, without the controller's protobuf",
            f"{_START}::test_wheel_and_torch_in_an_empty_environment",
        ),
        "eight": partial(
            _tests, "8 servers without a switch, as network namespaces: 8 installs, 8 starts, 1 `sumwire up`, no file",
            f"{_START}::test_eight_servers",
        ),
        "examples": partial(_tests, "examples from the wheel", f"{_START}::test_examples_from_the_wheel"),
        "lines": partial(_lines, options),
        "nodes": partial(_nodes, options),
        "tree": partial(_tree, options),
    }  # fmt: skip


def _tests(label: str, path: str) -> list[Check]:
    return [trust.tests(label, "works", run_tests([path]))]


def _lines(options: WaysOptions) -> list[Check]:
    epochs = QUICK_EPOCHS if options.quick else ways_lines.EPOCHS
    return rows.lines(ways_lines.measured(options.seeds, epochs))


def _nodes(options: WaysOptions) -> list[Check]:
    """In a process of its own, which forks its ranks."""
    wanted = (QUICK_NODES,) if options.quick else (QUICK_NODES, NODES)
    return [_one_size(*size) for size in wanted]


def _one_size(nodes: int, ranks: int) -> Check:
    return rows.nodes(measured_by("ways_nodes", nodes, ranks))


def _tree(options: WaysOptions) -> list[Check]:
    """In a process of its own, which forks its workers."""
    if os.geteuid() or shutil.which("ip") is None:
        return [absent("a tree of aggregators against a single one", "equal results", "needs root and the program ip")]
    return rows.tree(measured_by("ways_tree", *TREE, QUICK_TURNS if options.quick else TURNS))
