# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs with a key from end to end: real ranks, real packets, the software aggregator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.aggregator.served import serving
from helpers.gloo import blind_cases
from helpers.gloo.ranks import Ranks
from helpers.transport.udp_bridge import job_mapping
from sumwire.config import parse_job
from sumwire.errors import RefusedError
from sumwire.job.job import Job

RANKS = 2
OPS = ["thc", "max32", "sum32", "vote", "sign", "min32"]


def key_file(tmp_path: Path, name: str, key: bytes) -> str:
    path = tmp_path / name
    path.touch(0o600)
    path.write_text(key.hex())
    return str(path)


def mapping_of(**fields: Any) -> dict[str, Any]:
    return {**job_mapping(RANKS, 64), "ops": OPS, **fields}


def test_means_have_the_bits_of_the_open_job_blind_too(ranks: Ranks, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    outcomes, key = [], {"key": key_file(tmp_path, "job.key", bytes(range(32)))}
    for fields in ({}, key, {**key, "blind": True}):
        mapping = mapping_of(**fields)
        with serving(mapping):
            outcomes.append(ranks.run(blind_cases.means, mapping, [1, 1500, 100_000], 3))
    for plain, tagged, blind in zip(*outcomes, strict=True):
        assert tagged["found"] == blind["found"] == plain["found"]
        assert tagged["stats"]["forged"] == blind["stats"]["forged"] == 0
        # 8 bytes more for each packet.
        assert tagged["stats"]["bytes_sent"] > plain["stats"]["bytes_sent"]


def test_a_worker_with_another_key_ends_with_the_cure(tmp_path: Path) -> None:
    mapping = {**job_mapping(1, 16), "key": key_file(tmp_path, "job.key", bytes(range(32)))}
    other = {**mapping, "key": key_file(tmp_path, "other.key", bytes(32))}
    with serving(mapping):
        with Job(parse_job(mapping, 0)) as job:
            assert job.reduce_with(job._thc_for(""), torch.ones(10))[0].shape == (10,)
        refused = pytest.raises(RefusedError, match=r"TAG: the authentication tag.*give .* the same `key` file")
        with Job(parse_job(other, 0), deadline_s=1.0) as job, refused:
            job.reduce_with(job._thc_for(""), torch.ones(10))
