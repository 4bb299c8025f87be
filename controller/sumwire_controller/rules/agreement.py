# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rules on configurations of several switches that are applied together: the parts of each job must form one tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from ipaddress import IPv4Address
from itertools import combinations
from typing import Final, NamedTuple

from sumwire_controller.derive.desired import hosts_behind, levels_of
from sumwire_controller.errors import MISSING, ConfigError, Problem
from sumwire_controller.model import Config, Job, Parent
from sumwire_controller.rules.parts import repeated, shown_ids


class _Part(NamedTuple):
    """The part of a job at one switch. `path` names it in messages."""

    path: str
    config: Config
    job: Job

    @property
    def ip(self) -> IPv4Address:
        return self.config.aggregator.ip

    @property
    def hosts(self) -> int:
        """The number of hosts whose contributions meet here."""
        return sum(hosts_behind(self.config, self.job))


def check_together(configs: Sequence[Config]) -> None:
    """Check that the configurations agree with each other. A single one always does.

    :raises ConfigError: with every broken rule; its paths begin with the switch's name.
    """
    problems = list(_problems(configs)) if len(configs) > 1 else []
    if problems:
        raise ConfigError("configurations", problems)


def _problems(configs: Sequence[Config]) -> Iterator[Problem]:
    names = [config.switch.name for config in configs]
    servers = [f"{config.switch.grpc} device {config.switch.device_id}" for config in configs]
    aggregators = [str(config.aggregator.ip) for config in configs]
    yield from repeated(((f"{name}.switch", "name", name) for name in names), "name")
    for field, values in (("switch.grpc", servers), ("aggregator.ip", aggregators)):
        yield from repeated(((name, field, value) for name, value in zip(names, values, strict=True)), field)
    parts = [_Part(f"{c.switch.name}.jobs[{i}]", c, job) for c in configs for i, job in enumerate(c.jobs)]
    yield from _one_id_for_a_name(parts)
    yield from _ids_apart(parts)
    for number in dict.fromkeys(part.job.id for part in parts):
        yield from _tree([part for part in parts if part.job.id == number])
    circle = [name for name, level in zip(names, levels_of(configs).values(), strict=False) if level == len(configs)]
    if circle:
        yield Problem(
            "", "parents", ", ".join(circle), "go up in a circle: no switch may be above itself; remove one of them"
        )


def _one_id_for_a_name(parts: list[_Part]) -> Iterator[Problem]:
    first: dict[str, _Part] = {}
    for part in parts:
        other = first.setdefault(part.job.name, part)
        if other.job.id != part.job.id:
            yield Problem(
                part.path, "id", part.job.id, f"job {part.job.name} is {other.job.id} in {other.path}: must be the same"
            )


def _ids_apart(parts: list[_Part]) -> Iterator[Problem]:
    """A lane's id means the same job at every switch. Two jobs at one switch are checked with that switch."""
    jobs = {part.job.id: part for part in parts}
    for lower, higher in combinations(sorted(jobs.values(), key=lambda part: part.job.id), 2):
        if higher.job.id in lower.job.ids and lower.config is not higher.config:
            lanes = f"{lower.path} ({lower.job.name}), which has {shown_ids(lower.job)}"
            yield Problem(higher.path, "id", higher.job.id, f"is an id of a lane of {lanes}: give it another")


def _tree(parts: list[_Part]) -> Iterator[Problem]:
    """The parts of one job at all its switches form a tree."""
    parts = sorted(parts, key=lambda part: bool(part.job.parents))
    for part in parts[1:]:
        yield from _agree(parts[0], part)
    by_address = {part.ip: part for part in parts}
    for part in parts:
        for i, parent in enumerate(part.job.parents):
            yield from _parent(part, f"parents[{i}]", parent, by_address.get(parent.ip))
        yield from _lower(part, by_address)
    yield from _roots(parts)


_AGREED: Final[dict[str, Callable[[Job], object]]] = {
    "name": lambda job: job.name,
    "ops": lambda job: sorted(job.ops),
    "slots.count": lambda job: "none" if job.takes_free else job.slots.count,
    "slots.most": lambda job: job.slots.count if job.takes_free else "none",
    "lanes": lambda job: job.lanes,
    "spray": lambda job: job.spray,
    "thc": lambda job: job.thc,
}


def _agree(first: _Part, other: _Part) -> Iterator[Problem]:
    for field, value in _AGREED.items():
        ours, theirs = value(other.job), value(first.job)
        if ours != theirs:
            yield Problem(other.path, field, ours, f"must be as in {first.path}: {theirs}")


def _parent(part: _Part, field: str, parent: Parent, above: _Part | None) -> Iterator[Problem]:
    """The switch above has this one as a worker, at the seat that this one names."""
    if above is None:
        rule = (
            f"no switch with this aggregator has job {part.job.id}: give the configurations of all switches of the job"
        )
        yield Problem(part.path, f"{field}.ip", str(parent.ip), rule)
        return
    if parent.mac != above.config.aggregator.mac:
        rule = f"must be the aggregator's of {above.config.switch.name}, {above.config.aggregator.mac}"
        yield Problem(part.path, f"{field}.mac", parent.mac, rule)
    seats = [above.config.worker(name) for name in above.job.workers]
    own = next((k for k, worker in enumerate(seats) if worker.ip == part.ip and worker.is_switch), None)
    if own != parent.worker:
        rule = f"{above.path} has this switch as {'no worker' if own is None else f'worker {own}'}: must be the same"
        yield Problem(part.path, f"{field}.worker", parent.worker, rule)
    if own is None:
        return
    if seats[own].mac != part.config.aggregator.mac:
        rule = f"must be the aggregator's of {part.config.switch.name}, {part.config.aggregator.mac}"
        yield Problem(above.config.switch.name, f"workers.{seats[own].name}.mac", seats[own].mac, rule)
    expected = hosts_behind(above.config, above.job)[own]
    if expected != part.hosts:
        rule = f"{above.path} has {expected} hosts behind this switch: must be as many"
        yield Problem(part.path, "workers", f"{part.hosts} hosts", rule)


def _lower(part: _Part, by_address: dict[IPv4Address, _Part]) -> Iterator[Problem]:
    """Each lower switch has this one above it."""
    for k, name in enumerate(part.job.workers):
        worker = part.config.worker(name)
        if not worker.is_switch:
            continue
        below = by_address.get(worker.ip)
        if below is None:
            rule = (
                f"no switch with its aggregator {worker.ip} has job {part.job.id}: give the configurations of all its "
                "switches"
            )
            yield Problem(part.path, f"workers[{k}]", name, rule)
        elif part.ip not in [parent.ip for parent in below.job.parents]:
            yield Problem(
                below.path, "parents", MISSING, f"must name {part.config.switch.name}, as {part.path} expects"
            )


def _roots(parts: list[_Part]) -> Iterator[Problem]:
    """All switches directly below the roots divide the slots among all roots, and in the same order."""
    roots = {part.ip: part for part in parts if not part.job.parents}
    if len(parts) == 1 or not roots:  # alone, or a circle, which is reported elsewhere
        return
    orders: dict[tuple[IPv4Address, ...], _Part] = {}
    for part in parts:
        addresses = tuple(parent.ip for parent in part.job.parents)
        if roots.keys() & set(addresses):
            orders.setdefault(addresses, part)
        elif len(addresses) > 1:
            yield Problem(part.path, "parents", f"{len(addresses)} parents", "several must be roots of the job")
    (first, leader), *others = orders.items() or [((), parts[0])]
    for addresses, part in others:
        shown = ", ".join(map(str, addresses))
        yield Problem(part.path, "parents", shown, f"must be as in {leader.path}: {', '.join(map(str, first))}")
    for ip, root in roots.items():
        if ip not in first:
            yield Problem(
                root.path,
                "parents",
                MISSING,
                "is in no tree with the other switches that have this job: name it as their parent",
            )
