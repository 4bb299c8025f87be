# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One worker's state to all workers of a job, exactly: by SUM32, to which all others give zeros."""

from __future__ import annotations

import io
from typing import Any, Final

import numpy as np
import torch

from sumwire.errors import UsageError
from sumwire.job.job import Job

_BUCKET: Final = 0x3FFF
_WORD: Final = 4
_BYTES_MAX: Final = (1 << 32) - 1


def tell(job: Job, source: int, state: dict[str, Any] | None) -> dict[str, Any]:
    """Return worker ``source``'s ``state`` on all workers. It holds what torch.load reads with ``weights_only``.

    All workers call it; what the others give does not matter. It costs 32 bits up and down for 32 bits of state. Raises
    UsageError for a source that the job does not have, a quorum below the workers, or 4 GiB and more; and the errors of
    :meth:`Job.sum32`.
    """
    if not 0 <= source < job.workers:
        raise UsageError(f"source = {source}: must be a worker of the job, 0 to {job.workers - 1}")
    if job.config.quorum < job.workers:
        rule = f"must be {job.workers}, all workers: a sum could lack the source's state"
        raise UsageError(f"quorum = {job.config.quorum}: {rule}")
    content = b""
    if job.config.worker == source:
        file = io.BytesIO()
        torch.save(state, file)
        content = file.getvalue()
        if len(content) > _BYTES_MAX:
            raise UsageError(f"state of {len(content)} bytes: at most {_BYTES_MAX} are told at once: use more parts")
    size = int(job.max32(np.array([len(content)], np.uint32), _BUCKET)[0])
    words = np.zeros(-(-size // _WORD), np.int32)
    words.view(np.uint8)[: len(content)] = np.frombuffer(content, np.uint8)
    told = job.sum32(words, _BUCKET)
    # Not on the source's GPU, by a number that may be another worker's here, or nobody's.
    found: dict[str, Any] = torch.load(io.BytesIO(told.tobytes()[:size]), map_location="cpu", weights_only=True)
    return found
