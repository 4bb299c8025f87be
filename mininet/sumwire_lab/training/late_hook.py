# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Communication without overlap: buckets wait for the end of the backward pass."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch._C._distributed_c10d import GradBucket

BucketFuture = torch.futures.Future[torch.Tensor]


class LateHook:
    """Keeps a step's buckets until the last one is there, then hands all over, in the order in which they came."""

    def __init__(self, inner: Callable[[GradBucket], BucketFuture]) -> None:
        self._inner = inner
        self._waiting: list[tuple[GradBucket, BucketFuture]] = []

    def hand_over(self, bucket: GradBucket) -> BucketFuture:
        """The bucket's result, which comes only after the last bucket has been handed over."""
        future: BucketFuture = torch.futures.Future()
        self._waiting.append((bucket, future))
        if bucket.is_last():
            waiting, self._waiting = self._waiting, []
            for kept, later in waiting:
                self._inner(kept).then(lambda done, later=later: _pass_on(done, later))  # type: ignore[misc]
        return future


def _pass_on(done: BucketFuture, later: BucketFuture) -> None:
    try:
        later.set_result(done.value())
    except Exception as error:  # noqa: BLE001 - the error belongs to whoever waits for the bucket
        later.set_exception(error)  # type: ignore[arg-type]
