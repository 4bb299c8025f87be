# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Options of a job that are times."""

from __future__ import annotations

import math
from typing import Any

import pytest
from helpers.transport.udp_bridge import configs, job_mapping
from sumwire.errors import ConfigError
from sumwire.job.rules import check_job


@pytest.mark.parametrize("value", ["x", None, True, math.nan, -math.inf, 0, -1])
def test_what_is_no_time_is_refused_by_name(value: Any) -> None:
    rule = "must be a number of seconds above 0; leave silence_s out for the default"
    with pytest.raises(ConfigError, match=f"silence_s = .*: {rule}"):
        check_job(configs(job_mapping(2, 64))[0], deadline_s=1, silence_s=value)


def test_times() -> None:
    check_job(configs(job_mapping(2, 64))[0], deadline_s=1, join_s=0.5, silence_s=math.inf)
