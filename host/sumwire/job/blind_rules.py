# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a blind job must have, and what it cannot do (docs/blind.md)."""

from __future__ import annotations

import importlib.util

from sumwire.codec.base import GradientCodec
from sumwire.codec.sum32 import Sum32Codec
from sumwire.codec.thc import ThcCodec
from sumwire.config import JobConfig
from sumwire.errors import ConfigError
from sumwire.job.packing import unmaskable
from sumwire.transport.options import Delivery


def check_blind(config: JobConfig, delivery: Delivery | None, *, grouped: bool) -> None:
    """Raises ConfigError for a blind job that cannot be one. ``config``: the run's. ``grouped``: it has a group."""
    if not config.blind:
        return
    where = f"job {config.name}"
    if config.workers < 2:
        raise ConfigError("workers", config.workers, "must be 2 or more: one worker's sum is its own", where=where)
    if "sum32" not in config.ops:
        raise ConfigError("ops", config.ops, "must have sum32, which sums what is masked", where=where)
    if config.quorum != config.workers:
        rule = f"must be {config.workers}, all workers: masks only cancel in the sum of all of them"
        raise ConfigError("quorum", config.quorum, rule, where=where)
    if delivery is not None and delivery.loss_bound:
        rule = "must be 0 in a blind job: masks only cancel in the sum of all workers"
        raise ConfigError("loss_bound", delivery.loss_bound, rule, where=where)
    if not grouped:
        rule = "must be false without a process group, in which workers agree on keys"
        raise ConfigError("blind", True, rule, where=where, cure="call torch.distributed.init_process_group first")
    if importlib.util.find_spec("cryptography") is None:
        rule = "must be false without the package cryptography"
        raise ConfigError("blind", True, rule, where=where, cure="pip install 'sumwire[blind]' on every worker")


def check_codec(config: JobConfig, codec: GradientCodec, *, tagged: bool) -> None:
    """Raises ConfigError for a mean that a blind job cannot make."""
    if not config.blind:
        return
    if not isinstance(codec, ThcCodec | Sum32Codec):
        raise unmaskable(config, f"the codec {codec.info.name}")
    if tagged:
        raise unmaskable(config, "packets with priorities, which tell the magnitudes of their values")


def check_ops(config: JobConfig, ops: tuple[str, ...]) -> None:
    """Raises ConfigError for an operation that a blind job cannot make."""
    if config.blind and "sign" in ops:
        raise unmaskable(config, "merged signs")
