# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a codec that the caller has made is one of the job's: the switch sums by the job's table and workers."""

from __future__ import annotations

from sumwire.codec.base import GradientCodec
from sumwire.codec.sum32 import Sum32Codec
from sumwire.codec.thc import ThcCodec
from sumwire.codec.thc_wide import WideThcCodec
from sumwire.config import JobConfig
from sumwire.errors import ConfigError


def check_fit(config: JobConfig, codec: GradientCodec) -> None:
    """Raises ConfigError for THC with another table or p than the job's, and for sums of fewer workers."""
    where = f"job {config.name}, a codec given"
    if isinstance(codec, ThcCodec) and config.thc is not None:
        own, jobs = (codec.table.values, codec.table.p), (config.thc.table, config.thc.p)
        if own != jobs:
            rule = f"must be the job's, {list(jobs[0])} with p = {jobs[1]:g}, by which the switch sums"
            raise ConfigError("thc.table", f"{list(own[0])} with p = {own[1]:g}", rule, where=where)
    if isinstance(codec, Sum32Codec | WideThcCodec) and codec.workers < config.workers:
        rule = f"must be {config.workers} or more, the job's: sums of more workers do not fit"
        raise ConfigError("workers", codec.workers, rule, where=where)
