# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""FSDP2: models from `fully_shard`. Used by `attaching`.

For a model sharded over all ranks, the reduce-scatter goes through the network. For a model sharded over the ranks of
each node, torch reduces and scatters inside the node, and a hook makes the mean over the nodes. Parameters are gathered
by torch, or with 8 bits a value (:mod:`sumwire.sharded.gather`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor, nn

from sumwire.errors import UsageError
from sumwire.sharded.gather import AllGather
from sumwire.sharded.state import ShardedState, Unit, UnitExchange, called, over_nodes

_SETTERS: Final = ("set_all_reduce_hook", "set_custom_reduce_scatter")
_GATHER_SETTER: Final = "set_custom_all_gather"


def is_sharded(model: nn.Module) -> bool:
    """Return whether `fully_shard` has been called for the module or one inside it."""
    return any(_is_unit(module) for module in model.modules())


def _is_unit(module: nn.Module) -> bool:
    # The class is in another module of each torch before 2.6.
    return any(kind.__name__ == "FSDPModule" for kind in type(module).__mro__)


def attach(model: nn.Module, state: ShardedState, *, overlap: bool, rounded: bool = False) -> None:
    """See :func:`sumwire.sharded.attach`. ``rounded``: parameters are gathered with 8 bits a value."""
    travel = False
    for name, module, sharded in _units(model, counted=state.has_feedback, rounded=rounded):
        _attach_unit(name, module, sharded, state, overlap=overlap)
        if rounded and not over_nodes(sharded.ranks, state.job):
            module.set_custom_all_gather(AllGather(sharded.pieces))
            travel = True
    if rounded and not travel:
        raise UsageError(
            "parameters = '8bit': every unit is sharded over the ranks of one node, so no parameters travel between "
            "nodes: leave parameters out"
        )


def round_gathers(model: nn.Module) -> None:
    """Make all units gather parameters with 8 bits a value, without a job, for comparison."""
    for _, module, sharded in _units(model, counted=False, rounded=True):
        module.set_custom_all_gather(AllGather(sharded.pieces))


def _units(model: nn.Module, *, counted: bool, rounded: bool) -> Iterator[tuple[str, Any, _Sharded]]:
    """Yield name, module and parameters of each unit. Several modules given to fully_shard at once are one unit."""
    seen: list[Any] = []
    for name, module in model.named_modules():
        group = _parameters_of(name, module, rounded) if _is_unit(module) else None
        if group is not None and not any(group is one for one in seen):
            seen.append(group)
            yield name, module, _Sharded(group, counted)


def _parameters_of(name: str, module: Any, rounded: bool) -> Any:
    """torch's own record of a unit's parameters; None if it has none."""
    needed = (*_SETTERS, _GATHER_SETTER) if rounded else _SETTERS
    missing = [setter for setter in needed if not hasattr(module, setter)]
    if missing:
        raise UsageError(
            f"torch {torch.__version__}: fully_shard has no {missing[0]}: take a newer torch, or "
            'init_process_group("sumwire")'
        )
    inner = module._get_fsdp_state()
    groups = getattr(inner, "_fsdp_param_groups", None)
    found = [inner._fsdp_param_group] if groups is None else groups
    if len(found) > 1:
        raise UsageError(f"{called(name)}: its parameters have several meshes: must be one")
    return next(iter(found), None)


class _Sharded:
    """A unit's parameters, as torch has them. ``counted``: whether gradients must have all of them."""

    def __init__(self, group: Any, counted: bool) -> None:
        self._group = group
        self.counted = counted

    @property
    def ranks(self) -> list[int]:
        """The ranks that have a shard."""
        return dist.get_process_group_ranks(self._group.mesh_info.mesh.get_group())

    @property
    def dimensions(self) -> int:
        """The number of dimensions of its mesh: two for replicas and shards."""
        return int(self._group.mesh_info.mesh.ndim)

    @property
    def factor(self) -> float | None:
        """The factor given to `set_gradient_divide_factor`."""
        factor: float | None = self._group.gradient_divide_factor
        return factor

    def shard(self) -> int:
        """The number of values in this rank's shard of all gradients, padded to the other ranks'."""
        trained = (one for one in self._group.fsdp_params if one.sharded_param.requires_grad)
        return sum(one.padded_sharded_param_size.numel() for one in trained)

    def pieces(self) -> list[int]:
        """The number of values in this rank's shard of each parameter, padded to the other ranks'."""
        return [one.padded_sharded_param_size.numel() for one in self._group.fsdp_params]

    def reads_at_once(self, gradient: Tensor) -> bool:
        """Whether torch reads the mean before the backward pass ends: to convert, divide, add, move or hook it."""
        dtypes = {one.orig_dtype for one in self._group.fsdp_params if one.sharded_param.requires_grad}
        whole = dtypes <= {gradient.dtype} and gradient.dtype in (torch.float32, torch.bfloat16)
        if not whole or getattr(self._group, "force_sum_reduction_for_comms", False):
            return True
        return any(
            one.sharded_param.grad is not None
            or one.offload_to_cpu
            or getattr(one.sharded_param, "_post_accumulate_grad_hooks", None)
            for one in self._group.fsdp_params
        )


def _attach_unit(name: str, module: Any, sharded: _Sharded, state: ShardedState, *, overlap: bool) -> None:
    if sharded.dimensions > 1:
        raise UsageError(
            f"{called(name)}: a mesh of {sharded.dimensions} dimensions: torch makes the mean over the replicas itself "
            'then: give fully_shard the mesh of the shards alone, mesh["shard"]'
        )
    if over_nodes(sharded.ranks, state.job):
        unit = state.unit(name, sharded.shard, shards=True)
        module.set_all_reduce_hook(partial(_mean_over_nodes, state, unit, sharded, overlap))
    else:
        unit = state.unit(name, lambda: sharded.shard() * len(sharded.ranks))
        module.set_custom_reduce_scatter(ReduceScatter(state, unit, sharded, overlap))


def _mean_over_nodes(state: ShardedState, unit: Unit, sharded: _Sharded, overlap: bool, shard: Tensor) -> None:
    """FSDP2's all-reduce hook: ``shard`` becomes the mean over the nodes. With a factor of the user's, the sum."""
    nodes = dist.get_world_size() // len(sharded.ranks)

    def write(mean: Tensor) -> None:
        shard.copy_(mean if sharded.factor is None else mean * nodes)

    later = overlap and not sharded.reads_at_once(shard)
    state.exchange(UnitExchange(unit, shard, into=shard, write=write), later=later)


class ReduceScatter:
    """FSDP2's reduce-scatter over all ranks, in the form that `set_custom_reduce_scatter` takes."""

    def __init__(self, state: ShardedState, unit: Unit, sharded: _Sharded, overlap: bool) -> None:
        self._state = state
        self._unit = unit
        self._sharded = sharded
        self._overlap = overlap

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Allocate memory for gradients."""
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        group: dist.ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> None:
        """Fill this rank's shard of the mean, or of the sum. Raises UsageError for another operation."""
        if op not in (dist.ReduceOp.AVG, dist.ReduceOp.SUM):
            raise UsageError(
                "gradient_divide_factor: a factor within the reduction is not known here: call "
                "set_force_sum_reduction_for_comms(True) too"
            )
        factor = dist.get_world_size(group) if op == dist.ReduceOp.SUM else 1
        own = slice(dist.get_rank(group) * len(output_tensor), (dist.get_rank(group) + 1) * len(output_tensor))

        def write(mean: Tensor) -> None:
            output_tensor.copy_(mean[own] if factor == 1 else mean[own] * factor)

        later = self._overlap and not self._sharded.reads_at_once(output_tensor)
        self._state.exchange(UnitExchange(self._unit, input_tensor, output_tensor, write), later=later)
