# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Leaving out a root that is gone: which switches share roots, and which rows then say something else. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from ipaddress import IPv4Address

from sumwire_controller.deploy.reconcile import Change, Write
from sumwire_controller.derive.entries import Entry, uplinks
from sumwire_controller.derive.lanes import with_lanes
from sumwire_controller.model.config import Config, Job


def shared_roots(configs: Sequence[Config]) -> dict[IPv4Address, str]:
    """Aggregator -> name of the switches that share a job's slots with others, which could stand in for them."""
    shared = {parent.ip for config in configs for job in _sharing(config) for parent in job.parents}
    return {c.aggregator.ip: c.switch.name for c in configs if c.aggregator.ip in shared}


def below_shared_roots(configs: Sequence[Config]) -> tuple[Config, ...]:
    """The switches whose rows say which root has which share, with every lane as a job."""
    return tuple(with_lanes(config) for config in configs if _sharing(config))


def _sharing(config: Config) -> list[Job]:
    return [job for job in config.jobs if len(job.parents) > 1]


def redirections(
    config: Config, held: Iterable[Entry], dead: Collection[IPv4Address], returned: Collection[IPv4Address] = ()
) -> list[Change]:
    """The writes that give the shares of roots that are gone to those that are left. A job with none left stays as it
    is, and so does a row that the switch does not have.

    :param config: of `below_shared_roots`.
    :param held: what the switch has in its uplink table.
    :param returned: roots that are there again, but perhaps without program and jobs: taken only if no others are left.
    """
    rows = {entry.identity: entry for entry in held}
    wanted = [
        row
        for job in _sharing(config)
        if (left_out := _left_out(job, dead, returned)) is not None
        for row in uplinks(job, left_out)
    ]
    return [Change(Write.MODIFY, row) for row in wanted if rows.get(row.identity, row) != row]


def stranded(config: Config, dead: Collection[IPv4Address]) -> list[str]:
    """Names of the jobs that have no root left."""
    return [job.name for job in _sharing(config) if all(parent.ip in dead for parent in job.parents)]


def _left_out(job: Job, dead: Collection[IPv4Address], returned: Collection[IPv4Address]) -> set[IPv4Address] | None:
    """The roots to do without; None if no others would be left."""
    roots = {parent.ip for parent in job.parents}
    for gone in ({*dead, *returned}, {*dead}):
        if roots - gone:
            return roots & gone
    return None
