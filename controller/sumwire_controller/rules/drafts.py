# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a file says before its rules are checked: parts that could not be read are missing.

The rules are checked on drafts, so that one error names what is unreadable and what is against a rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from sumwire_controller.model import (
    AggregatorAddress,
    Config,
    Host,
    Job,
    QueueAt,
    Switch,
    SwitchLink,
    SwitchNode,
    Topology,
    VirtualQueue,
    Worker,
)


@dataclass(frozen=True, slots=True)
class Draft:
    """A `Config` in which parts that could not be read are None. Indices are those of the YAML text."""

    switch: Switch | None
    aggregator: AggregatorAddress | None
    ports: tuple[int, ...] | None
    workers: tuple[Worker | None, ...]
    jobs: tuple[Job | None, ...]
    names_unparsed: frozenset[str] = frozenset()
    queues: tuple[VirtualQueue | None, ...] = ()

    def workers_at(self) -> list[tuple[str, Worker]]:
        return [(f"workers[{i}]", worker) for i, worker in enumerate(self.workers) if worker is not None]

    def jobs_at(self) -> list[tuple[str, Job]]:
        return [(f"jobs[{i}]", job) for i, job in enumerate(self.jobs) if job is not None]

    def queues_at(self) -> list[tuple[str, VirtualQueue]]:
        return [(f"queues[{i}]", queue) for i, queue in enumerate(self.queues) if queue is not None]


def draft_of(config: Config) -> Draft:
    """The draft of a configuration, with nothing missing."""
    return Draft(config.switch, config.aggregator, config.ports, config.workers, config.jobs, queues=config.queues)


@dataclass(frozen=True, slots=True)
class TopologyDraft:
    """A `Topology` in which parts that could not be read are None. Indices are those of the YAML text."""

    switches: tuple[SwitchNode | None, ...]
    links: tuple[SwitchLink | None, ...]
    hosts: tuple[Host | None, ...]
    jobs: tuple[Job | None, ...]
    switches_unparsed: frozenset[str] = frozenset()
    hosts_unparsed: frozenset[str] = frozenset()
    queues: tuple[QueueAt | None, ...] = ()

    def topology(self) -> Topology:
        """The parts that could be read."""
        return Topology(
            tuple(filter(None, self.switches)),
            tuple(filter(None, self.links)),
            tuple(filter(None, self.hosts)),
            tuple(filter(None, self.jobs)),
            tuple(filter(None, self.queues)),
        )

    def switches_at(self) -> list[tuple[str, SwitchNode]]:
        return [(f"switches[{i}]", node) for i, node in enumerate(self.switches) if node is not None]

    def links_at(self) -> list[tuple[str, SwitchLink]]:
        return [(f"links[{i}]", link) for i, link in enumerate(self.links) if link is not None]

    def hosts_at(self) -> list[tuple[str, Host]]:
        return [(f"hosts[{i}]", host) for i, host in enumerate(self.hosts) if host is not None]

    def jobs_at(self) -> list[tuple[str, Job]]:
        return [(f"jobs[{i}]", job) for i, job in enumerate(self.jobs) if job is not None]

    def queues_at(self) -> list[tuple[str, QueueAt]]:
        return [(f"queues[{i}]", queue) for i, queue in enumerate(self.queues) if queue is not None]
