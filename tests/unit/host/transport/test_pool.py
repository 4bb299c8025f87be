# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Memory that one exchange after another uses."""

from __future__ import annotations

import resource

from sumwire.transport.buffers import Pool

SIZE = 8 << 20


def faults() -> int:
    """Pages that the system has given to this thread."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt


def test_a_pools_memory_has_its_pages() -> None:
    """An exchange that writes to it has to wait for none. There are four of them at least."""
    memory = Pool().take(SIZE)
    before = faults()
    memory[:] = 1
    assert faults() - before < 2


def test_a_smaller_exchange_has_the_same_memory() -> None:
    pool = Pool()
    at = pool.take(SIZE).ctypes.data
    assert pool.take(SIZE // 2).ctypes.data == at
    assert (pool.take(0).size, pool.size >= SIZE) == (0, True)
    assert pool.take(2 * SIZE).size == 2 * SIZE
