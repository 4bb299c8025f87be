# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Where the backend finds a job."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from helpers.transport.udp_bridge import configs, job_mapping
from sumwire.backend import jobs
from sumwire.backend.jobs import Options
from sumwire.config import JobConfig
from sumwire.errors import UsageError
from sumwire.training.hierarchical import NodeJob
from torch.distributed import HashStore

WORKERS = 3


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("SUMWIRE_JOB", raising=False)
    monkeypatch.setattr(jobs, "_finders", [])
    yield
    jobs.use(None)


def job_file(folder: Path, name: str) -> Path:
    path = folder / f"{name}.json"
    path.write_text(json.dumps({**job_mapping(WORKERS, 64), "name": name}))
    return path


def found(rank: int = 1, options: Options | None = None) -> str:
    job = jobs.job_for(rank, WORKERS, HashStore(), options)
    assert isinstance(job, JobConfig)
    assert job.worker == rank
    return job.name


def test_options_before_use_before_environment_before_finders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"has no job: give one by .*pg_options.*use\(job\).*SUMWIRE_JOB"):
        found()
    jobs.find_by(lambda rank, size, store: None)
    jobs.find_by(lambda rank, size, store: configs({**job_mapping(size, 64), "name": "found"})[rank])
    assert found() == "found"
    monkeypatch.setenv("SUMWIRE_JOB", str(job_file(tmp_path, "environment")))
    assert found() == "environment"
    jobs.use(job_file(tmp_path, "used"))
    assert found() == "used"
    assert found(options=Options(job=str(job_file(tmp_path, "options")))) == "options"
    jobs.use(None)
    assert found() == "environment"


def test_a_rank_beyond_the_workers_reads_the_file_too(tmp_path: Path) -> None:
    jobs.use(job_file(tmp_path, "small"))
    job = jobs.job_for(WORKERS + 2, 2 * WORKERS, HashStore())
    assert isinstance(job, JobConfig)


def test_what_is_no_job_is_refused_with_a_cure() -> None:
    job = NodeJob("nodes", None, cast(Any, SimpleNamespace(leads=False)), 4)
    rule = r"job = NodeJob: must be a job file.*give the file where a worker has several ranks"
    with pytest.raises(UsageError, match=rule):
        jobs.use(cast(Any, job))
    with pytest.raises(UsageError, match=rule):
        found(options=Options(job=cast(Any, job)))
    with pytest.raises(UsageError, match="has no job"):
        found()
