# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-ways` on packages: extras, compiled kernels, the unit of systemd, the images."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from sumwire_lab.options.ways_options import WaysOptions
from sumwire_lab.study.check import Check, absent
from sumwire_lab.study.experiment import Say
from sumwire_lab.verify.plan import Experiment
from sumwire_lab.verify.processes import run_tests
from sumwire_lab.verify.rows import trust

_FILE: Final = "tests/system/test_packages.py"
_WORKS: Final = "works"


def experiments(results: Path, say: Say, options: WaysOptions) -> Mapping[str, Experiment]:
    """By row."""
    return {
        "extras": partial(
            _tests, "each extra alone in an empty environment, and beside current PyTorch",
            "test_an_extra_alone_and_beside_pytorch", "test_the_host_library_brings_nothing_of_the_controller",
        ),
        "kernels": partial(
            _tests, "the wheel's compiled kernels without a compiler, and with a byte changed",
            "test_kernels_come_compiled",
        ),
        "arm": partial(
            _tests_with, "aarch64-linux-gnu-gcc", "the wheel's kernels for 64-bit Arm, by a cross compiler; not run",
            "test_kernels_for_arm",
        ),
        "unit": partial(
            _tests_with, "systemd-analyze", "the aggregator's unit, by systemd-analyze: verify, exposure at most 2.0",
            "test_the_unit_of_systemd",
        ),
        "images": partial(
            _tests_with, "debootstrap", "the images' steps in a bare Debian: aggregator, switch, controller",
            "test_the_images_steps_in_a_bare_debian",
        ),
    }  # fmt: skip


def _tests(label: str, *names: str) -> list[Check]:
    return [trust.tests(label, _WORKS, run_tests([f"{_FILE}::{name}" for name in names]))]


def _tests_with(program: str, label: str, name: str) -> list[Check]:
    if shutil.which(program) is None:
        return [absent(label, _WORKS, f"{program} is not on PATH")]
    return _tests(label, name)
