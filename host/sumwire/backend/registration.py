# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Registers the name "sumwire" among the backends of torch.distributed. Called by `import sumwire`.

`import sumwire` loads no torch, and usually comes before `import torch`. The name is registered at once if
torch.distributed is already loaded, otherwise as soon as it is.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import logging
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final

NAME: Final = "sumwire"
_TORCH: Final = "torch.distributed"
# Functions to call before the first group, and those that were called.
_to_prepare: Final[list[Callable[[], object]]] = []
_prepared: Final[list[Callable[[], object]]] = []


def register_when_loaded(prepare: Callable[[], object] | None = None) -> None:
    """Register the backend now, or once torch.distributed is loaded. Repeated calls change nothing.

    ``prepare`` is called once, before the backend's first group.
    """
    if prepare is not None and not _prepared:
        _to_prepare[:] = [prepare]
    loaded = sys.modules.get(_TORCH)
    if loaded is not None and hasattr(loaded, "Backend"):
        register(loaded)
    elif not any(isinstance(finder, _AfterTorch) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterTorch())


def register(distributed: Any) -> None:
    """Register the backend with the module torch.distributed, if torch was built with process groups."""
    if not distributed.is_available():
        return
    if NAME.upper() not in distributed.Backend._plugins:
        distributed.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu", "cuda"])
    warn_of_torchcomms()


def warn_of_torchcomms() -> None:
    """Warn if torchcomms is switched on: from 2.13 on, torch then asks it for every backend but one."""
    config = sys.modules.get(f"{_TORCH}.config")
    if getattr(config, "use_torchcomms", False) and importlib.util.find_spec("torchcomms") is not None:
        logging.getLogger(NAME).warning(
            'torchcomms is switched on, so init_process_group("sumwire") would ask it for a backend that it does not '
            "have; unset TORCH_DISTRIBUTED_USE_TORCHCOMMS, or set torch.distributed.config.use_torchcomms = False first"
        )


def _create(given: Any, options: Any) -> Any:
    """What init_process_group and new_group call."""
    while _to_prepare:
        _prepared.append(_to_prepare.pop())
        _prepared[-1]()
    from sumwire.backend.group import create

    return create(given, options)


class _AfterTorch(importlib.abc.MetaPathFinder):
    """Lets torch.distributed be loaded as ever, and registers the backend after that. Goes away then."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _TORCH:
            return None
        sys.meta_path.remove(self)
        found = importlib.util.find_spec(fullname)
        if found is not None and found.loader is not None:
            found.loader = _PatchingLoader(found.loader)
        return found


class _PatchingLoader(importlib.abc.Loader):
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._inner.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self._inner
        register(module)
