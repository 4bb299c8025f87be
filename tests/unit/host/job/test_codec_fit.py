# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A codec that the caller has made is one of the job's, or refused before anything is sent."""

from __future__ import annotations

import pytest
from helpers.transport.udp_bridge import configs, job_mapping
from sumwire.codec.base import GradientCodec
from sumwire.codec.sum32 import Sum32Codec
from sumwire.codec.tables import ThcTable, solve
from sumwire.codec.thc import ThcCodec
from sumwire.codec.thc_wide import wide_codec
from sumwire.errors import ConfigError
from sumwire.job.codec_operation import check_fit

WORKERS = 2
CONFIG = configs(job_mapping(WORKERS, 8))[0]
assert CONFIG.thc is not None
TABLE = ThcTable(CONFIG.thc.table, CONFIG.thc.bits, CONFIG.thc.granularity, CONFIG.thc.p)


def thc(table: ThcTable, worker: int = 0) -> ThcCodec:
    return ThcCodec(table, job=CONFIG.job, worker=worker, block=1024)


@pytest.mark.parametrize(
    ("codec", "words"),
    [
        (thc(solve(2, 30, 1 / 32)), r"thc\.table = .*: must be the job's"),
        (thc(solve(4, 15, 1 / 32)), r"thc\.table = .*: must be the job's"),
        (
            thc(ThcTable(TABLE.values, TABLE.bits, TABLE.granularity, 0.1)),
            r"thc\.table = .* with p = 0\.1': must be the job's",
        ),
        (Sum32Codec(workers=1), "workers = 1: must be 2 or more"),
        (wide_codec(workers=1, job=1, worker=0), "workers = 1: must be 2 or more"),
    ],
    ids=["2 bits", "granularity", "p", "sum32", "thc-wide"],
)
def test_codecs_of_another_job_are_refused(codec: GradientCodec, words: str) -> None:
    with pytest.raises(ConfigError, match=f"a codec given: {words}"):
        check_fit(CONFIG, codec)
