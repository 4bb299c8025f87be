# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a blind job must have, in a process without a process group."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pytest
from helpers.transport.udp_bridge import configs, job_mapping
from sumwire.codec.scales import ExponentScales
from sumwire.config import JobConfig
from sumwire.errors import ConfigError, PlaintextError
from sumwire.job.one_trip import OneTrip
from sumwire.job.rules import check_blind
from sumwire_protocol import constants as p4


def config(workers: int = 2) -> JobConfig:
    return configs({**job_mapping(workers, 8), "ops": ["max32", "sum32", "thc"], "blind": True})[0]


def test_it_needs_a_process_group() -> None:
    with pytest.raises(ConfigError, match=r"without a process group.*init_process_group first"):
        check_blind(config(), None, grouped=False)
    check_blind(replace(config(), blind=False), None, grouped=False)


def test_it_needs_another_worker() -> None:
    with pytest.raises(ConfigError, match="workers = 1: must be 2 or more"):
        check_blind(config(1), None, grouped=True)


def test_it_needs_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'sumwire\[blind\]'"):
        check_blind(config(), None, grouped=True)


def test_nothing_goes_in_one_trip() -> None:
    """There a tensor may be summed without a worker, and then once more with it."""
    rest = p4.OP_SUM32, ExponentScales(3072), np.ones(1, np.uint32), np.ones(1, np.uint32), None
    OneTrip(replace(config(), blind=False), *rest)
    with pytest.raises(PlaintextError, match="would tell the values of one worker"):
        OneTrip(config(), *rest)
