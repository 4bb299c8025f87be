# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Where each of several switches stands in the trees of their jobs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address

from sumwire_controller.model.config import Config, Job


def hosts_behind(config: Config, job: Job) -> tuple[int, ...]:
    """The number of hosts behind each worker of a job."""
    return job.stands_for or tuple(config.worker(name).weight for name in job.workers)


def upper_first(configs: Sequence[Config]) -> tuple[Config, ...]:
    """The configurations in an order in which every switch comes after those above it.

    They must keep the rules of `rules/agreement.py`.
    """
    levels = levels_of(configs)
    return tuple(sorted(configs, key=lambda config: levels[config.aggregator.ip]))


def levels_of(configs: Sequence[Config]) -> dict[IPv4Address, int]:
    """Address of the aggregator -> number of switches on the longest path up. In a circle it is the number of all."""
    levels = {config.aggregator.ip: 0 for config in configs}
    for _ in configs:
        for config in configs:
            above = [levels.get(parent.ip, 0) for job in config.jobs for parent in job.parents]
            levels[config.aggregator.ip] = min(max(above, default=-1) + 1, len(configs))
    return levels
