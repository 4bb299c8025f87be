# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The tag of a call differs from run to run."""

from __future__ import annotations

from sumwire.job.call import Call, tag_in_run

TAG = Call(3, "mean by thc", 1000, 7).tag


def test_same_run_same_tag() -> None:
    assert tag_in_run(TAG, (5, 2**32 - 1)) == tag_in_run(TAG, (5, 2**32 - 1))


def test_runs_and_calls_differ() -> None:
    assert len({tag_in_run(TAG, (nonce, 9)) for nonce in range(100)}) >= 99
    assert tag_in_run(TAG, (5, 9)) != tag_in_run(Call(4, "mean by thc", 1000, 7).tag, (5, 9))


def test_the_greetings_buckets_are_left_free() -> None:
    assert all(tag_in_run(TAG, (nonce,)) < 0xFF00 for nonce in range(2000))
