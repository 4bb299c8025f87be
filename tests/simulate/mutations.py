# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of the protocol, each broken in one way: the simulator must find every one of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

MUTATIONS: Final[dict[str, Callable[[], contextlib.AbstractContextManager[None]]]] = {}


@contextlib.contextmanager
def mutated(name: str | None) -> Iterator[None]:
    """Within it this rule is broken; None breaks none."""
    with contextlib.nullcontext() if name is None else MUTATIONS[name]():
        yield
