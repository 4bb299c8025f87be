# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Runs all checks of `sumwire doctor`, each after those that it depends on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sumwire.config import JobConfig, load_job
from sumwire.doctor import machine
from sumwire.doctor.controller import ControllerStatus
from sumwire.doctor.findings import Finding, bad, good, unknown
from sumwire.doctor.switch import ask, judged
from sumwire.errors import ConfigError, SumwireError


def examine(
    job_file: Path | None = None, worker: int | None = None, *, status: ControllerStatus | None = None
) -> Iterator[Finding]:
    """Yield all findings as they are made, within about 3 s. The checks change nothing in a running job.

    ``job_file``: the job to check as ``worker``; by default the worker with an address of this host. ``status``: the
    running `sumwire-controller status`.
    """
    config = None
    if job_file is not None:
        config, finding = _loaded(job_file, worker)
        yield finding
    yield from machine.examined(config)
    if config is not None:
        yield from _network(config)
    if status is not None:
        yield from status.findings()
    elif job_file is None:
        yield unknown("job", "none was named; a job's way to its switch is looked at with: sumwire doctor JOBFILE")


def _loaded(path: Path, worker: int | None) -> tuple[JobConfig | None, Finding]:
    try:
        config = load_job(path, 0 if worker is None else worker)
        if worker is None:
            config = load_job(path, _own(path, config))
    except SumwireError as error:
        return None, bad("job file", error)
    return config, good(
        "job file", f"{path}: job {config.job} {config.name}, {config.workers} workers, ops {', '.join(config.ops)}"
    )


def _own(path: Path, config: JobConfig) -> int:
    """The number of the worker that this host is."""
    found = machine.own_worker([address.ip for address in config.addresses])
    if len(found) == 1:
        return found[0]
    said = "several addresses are" if found else "none of the addresses is"
    listed = ", ".join(dict.fromkeys(address.ip for address in config.addresses))
    cure = "give this worker's number: --worker NUMBER; `ip address` shows what this host has"
    raise ConfigError("addresses", listed, f"{said} this host's", where=str(path), cure=cure)


def _network(config: JobConfig) -> Iterator[Finding]:
    found, findings = machine.network(config)
    yield from findings
    if not (found.here and found.way):
        return
    for lane in range(len(config.lanes)):
        own = config.for_lane(lane)
        answers = ask(own, found.device)
        yield from judged(own, answers, found)
        if not answers.answered:
            return
