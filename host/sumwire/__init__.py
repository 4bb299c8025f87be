# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sums gradients inside the network: the host library.

Names and modules are loaded on first use, so that ``import sumwire.wire`` needs no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from commonlib.version import __version__ as __version__

from sumwire.backend.registration import register_when_loaded

if TYPE_CHECKING:
    from sumwire.config import JobConfig as JobConfig
    from sumwire.config import load_job as load_job
    from sumwire.errors import AddressError as AddressError
    from sumwire.errors import ClosedError as ClosedError
    from sumwire.errors import ConfigError as ConfigError
    from sumwire.errors import DeadlineError as DeadlineError
    from sumwire.errors import FallbackError as FallbackError
    from sumwire.errors import ForkError as ForkError
    from sumwire.errors import GroupError as GroupError
    from sumwire.errors import InterruptedJobError as InterruptedJobError
    from sumwire.errors import JobBusyError as JobBusyError
    from sumwire.errors import LaneOverflowError as LaneOverflowError
    from sumwire.errors import MismatchError as MismatchError
    from sumwire.errors import NonFiniteError as NonFiniteError
    from sumwire.errors import OrderError as OrderError
    from sumwire.errors import PeerLostError as PeerLostError
    from sumwire.errors import RecreateError as RecreateError
    from sumwire.errors import RefusedError as RefusedError
    from sumwire.errors import RetryError as RetryError
    from sumwire.errors import StaleRunError as StaleRunError
    from sumwire.errors import SumOverflowError as SumOverflowError
    from sumwire.errors import SumwireError as SumwireError
    from sumwire.errors import SwitchLostError as SwitchLostError
    from sumwire.errors import TransportError as TransportError
    from sumwire.errors import UsageError as UsageError
    from sumwire.job.control import Change as Change
    from sumwire.job.job import Job as Job
    from sumwire.start import init as init
    from sumwire.start.elastic import elastic as elastic
    from sumwire.training.all_reduce import all_reduce as all_reduce
    from sumwire.training.ddp import DdpState as DdpState
    from sumwire.training.ddp import ddp_hook as ddp_hook
    from sumwire.training.ddp import local_hook as local_hook
    from sumwire.training.hierarchical import NodeJob as NodeJob
    from sumwire.transport.stats import JobStats as JobStats

_NAMES: Final = {
    "config": "JobConfig load_job",
    "errors": (
        "AddressError ClosedError ConfigError DeadlineError FallbackError ForkError GroupError "
        "InterruptedJobError JobBusyError LaneOverflowError MismatchError NonFiniteError OrderError "
        "PeerLostError RecreateError RefusedError RetryError StaleRunError SumOverflowError SumwireError "
        "SwitchLostError TransportError UsageError"
    ),
    "job.control": "Change",
    "job.job": "Job",
    "start": "init",
    "start.elastic": "elastic",
    "training.all_reduce": "all_reduce",
    "training.ddp": "DdpState ddp_hook local_hook",
    "training.hierarchical": "NodeJob",
    "transport.stats": "JobStats",
}
_HOMES: Final = {name: home for home, names in _NAMES.items() for name in names.split()}


# Public modules, loaded on first use as attributes: `sumwire.optim` works after `import sumwire`.
_MODULES: Final = frozenset({
    "backend", "checkpoint", "codec", "config", "ddp", "delivery", "dlcp", "errors",
    "logs", "multihop", "optim", "reductions", "sharded", "start", "systems", "wire",
})  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load a public name from its module, or a public module."""
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(f"sumwire.{name} needs PyTorch: pip install 'sumwire[host]'", name="torch") from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted((*_HOMES, *_MODULES))


def _find_jobs_of_services() -> None:
    """Let the backend look for a job at SUMWIRE_SERVICE too."""
    from sumwire.backend.jobs import find_by
    from sumwire.start.rank_placement import find

    find_by(find)


register_when_loaded(_find_jobs_of_services)
