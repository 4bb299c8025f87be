# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A job refuses a codec that is not its own, and goes on."""

from __future__ import annotations

import pytest
import sumwire
import torch
from helpers.transport.udp_bridge import Bridge, configs, golden_switch, job_mapping, run_workers
from sumwire.codec.tables import ThcTable, solve
from sumwire.codec.thc import ThcCodec
from sumwire.errors import ConfigError
from torch import Tensor

WORKERS = 2


def test_the_job_refuses_it_and_goes_on() -> None:
    mapping = job_mapping(WORKERS, 8)

    def work(worker: int) -> Tensor:
        with sumwire.Job(configs(mapping)[worker], block=1024) as job:
            config = job.config
            assert config.thc is not None
            own = ThcTable(config.thc.table, config.thc.bits, config.thc.granularity, config.thc.p)
            ours, other = (
                ThcCodec(table, job=config.job, worker=worker, block=1024) for table in (own, solve(2, 30, 1 / 32))
            )
            with pytest.raises(ConfigError, match="a codec given"):
                job.reduce_with(other, torch.ones(9))
            return job.reduce_with(ours, torch.ones(9))[0].clone()

    with Bridge(mapping, golden_switch(mapping)):
        first, second = run_workers(work, WORKERS)
    assert torch.equal(first, second)
    torch.testing.assert_close(first, torch.ones(9), rtol=0.2, atol=0)
