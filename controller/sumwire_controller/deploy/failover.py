# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The rows to change when a root fails: its slots go to the job's other roots. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from ipaddress import IPv4Address

from sumwire_controller.deploy.reconcile import Change, Write
from sumwire_controller.derive.desired import uplinks
from sumwire_controller.derive.entries import Entry
from sumwire_controller.derive.lanes import with_lanes
from sumwire_controller.model.config import Config, Job


def redundant_roots(configs: Sequence[Config]) -> dict[IPv4Address, str]:
    """Address of the aggregator -> name, for the switches that are one of several roots of a job."""
    redundant = {parent.ip for config in configs for job in _with_several_roots(config) for parent in job.parents}
    return {c.aggregator.ip: c.switch.name for c in configs if c.aggregator.ip in redundant}


def below_redundant_roots(configs: Sequence[Config]) -> tuple[Config, ...]:
    """The switches whose uplink rows select one of several roots, with a job for each lane."""
    return tuple(with_lanes(config) for config in configs if _with_several_roots(config))


def _with_several_roots(config: Config) -> list[Job]:
    return [job for job in config.jobs if len(job.parents) > 1]


def redirections(
    config: Config, held: Iterable[Entry], dead: Collection[IPv4Address], returned: Collection[IPv4Address] = ()
) -> list[Change]:
    """The writes that move the slots of failed roots to the roots that are left.

    A job without any root left keeps its rows. A row that the switch does not have is not written.

    :param config: one of `below_redundant_roots`.
    :param held: the rows of the switch's uplink table.
    :param dead: addresses of the roots that do not answer.
    :param returned: roots that answer again, but may have lost their program and jobs. They are used only if no other
        root is left.
    """
    rows = {entry.identity: entry for entry in held}
    wanted = [
        row
        for job in _with_several_roots(config)
        if (left_out := _left_out(job, dead, returned)) is not None
        for row in uplinks(job, left_out)
    ]
    return [Change(Write.MODIFY, row) for row in wanted if rows.get(row.identity, row) != row]


def stranded(config: Config, dead: Collection[IPv4Address]) -> list[str]:
    """The names of the jobs that have no root left."""
    return [job.name for job in _with_several_roots(config) if all(parent.ip in dead for parent in job.parents)]


def _left_out(job: Job, dead: Collection[IPv4Address], returned: Collection[IPv4Address]) -> set[IPv4Address] | None:
    """The roots to leave out; None if no other root would be left."""
    roots = {parent.ip for parent in job.parents}
    for gone in ({*dead, *returned}, {*dead}):
        if roots - gone:
            return roots & gone
    return None
