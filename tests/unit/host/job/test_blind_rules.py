# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a blind job must have, in a process without a process group."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import pytest
from helpers.transport.udp_bridge import configs, job_mapping
from sumwire.config import JobConfig
from sumwire.errors import ConfigError
from sumwire.job.rules import check_blind


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
