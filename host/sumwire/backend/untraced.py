# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Methods that torch.compile does not look into.

DistributedDataParallel under torch.compile calls a group while torch's tracer watches the thread. The tracer would
take a group that is defined in Python for a part of the model, and fail.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from torch.distributed import ProcessGroup

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Work
else:
    from torch.distributed import Work

# By the names in its own classes.
_CALLED_BY_TORCH: Final = frozenset(
    name for kind in (ProcessGroup, Work) for name in dir(kind) if not name.startswith("__")
)


def untraced(kind: type) -> type:
    """Keep torch's tracer out of all methods of a class that torch calls."""
    for name, method in list(vars(kind).items()):
        if name in _CALLED_BY_TORCH and callable(method):
            setattr(kind, name, _untraced(method))
    return kind


def _untraced(method: Callable[..., Any]) -> Callable[..., Any]:
    quiet: list[Callable[..., Any]] = []

    @functools.wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        # The tracer takes seconds to load, and whoever has not loaded it does not trace.
        disable = getattr(sys.modules.get("torch._dynamo"), "disable", None)
        if disable is None:
            return method(*arguments, **named)
        if not quiet:
            quiet.append(disable(method))
        return quiet[0](*arguments, **named)

    return call
