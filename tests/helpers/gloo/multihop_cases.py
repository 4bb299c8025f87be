# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Every form of the merge over gloo, as one of four ranks."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from sumwire.errors import SumwireError
from sumwire.multihop import CascadeRing, GroupRing, RingSigns, ScheduleError, TorusSigns

RANKS = 4
SEED = 11
LENGTHS = (0, 1, 7, 8, 9, 1000, 100_003)
SUBGROUPS = ((0, 1, 2), (3, 1))


def bools(rank: int, length: int) -> torch.Tensor:
    """A rank's signs."""
    return torch.from_numpy(np.random.default_rng([rank, length]).random(length) < 0.3 + 0.1 * rank)


def floats(rank: int, length: int) -> torch.Tensor:
    """A rank's values."""
    return torch.from_numpy(np.random.default_rng([rank, length, 1]).normal(size=length).astype(np.float32))


def refused(call: Any) -> str:
    """The text of the ScheduleError a call must raise."""
    try:
        call()
    except ScheduleError as error:
        return str(error)
    return ""


def every_form(rank: int) -> dict[str, Any]:
    """What this rank got from each form, by name."""
    found: dict[str, Any] = {}
    # The hops of a group come in the order of calls: whoever is in no group here goes on.
    forms: dict[str, Any] = {"ring": RingSigns(seed=SEED), "torus": TorusSigns(2, seed=SEED)}
    for members in SUBGROUPS:
        group = dist.new_group(list(members))
        if rank in members:
            forms[f"group{len(members)}"] = RingSigns(group, seed=SEED)
    for name, form in forms.items():
        for length in LENGTHS:
            found[f"{name} {length}"] = form.sign_merge(bools(rank, length)).numpy()
        found[f"{name} traffic"] = np.array(astuple(form.traffic))
    ring = forms["ring"]
    packed = torch.from_numpy(np.packbits(bools(rank, 1000).numpy()))
    packed[-1] |= 0 if rank else 0xFF >> 5  # padding: must not matter, and come back 0
    found["packed"] = ring.sign_merge(packed, 997).numpy()
    found["shape"] = np.array(ring.sign_merge(bools(rank, 24).reshape(2, 3, 4)).shape)
    found["mean"] = ring.mean(floats(rank, 50)).numpy()
    for stochastic in (False, True):
        form = CascadeRing(seed=SEED, stochastic=stochastic)
        found[f"cascade {stochastic}"] = form.compressed_mean(floats(rank, 77)).numpy()
        found[f"cascade {stochastic} traffic"] = np.array(astuple(form.traffic))
    found["refusals"] = np.array([
        refused(lambda: TorusSigns(3)),
        refused(lambda: ring.sign_merge(floats(rank, 8))),
        refused(lambda: ring.sign_merge(packed, 17)),
        refused(lambda: ring.sign_merge(bools(rank, 8), 8)),
    ])  # fmt: skip
    return found


def by_udp(rank: int) -> dict[str, Any]:
    """Means around a ring of UDP, of all ranks and of two; and how wrong options are refused."""
    found: dict[str, Any] = {}
    pair = dist.new_group([1, 3])
    for name, group in {"all": None, "pair": pair}.items():
        if name == "pair" and rank not in (1, 3):
            continue
        with GroupRing(group, loss_bound=0.01) as ring:
            for length in LENGTHS:
                mean, residual = ring.mean(floats(rank, length).reshape(-1, 1))
                found[f"{name} {length}"] = mean.numpy()
                found[f"{name} {length} residual"] = residual.numpy()
            found[f"{name} half"] = ring.mean(floats(rank, 9).half())[0].numpy()
    for name, options in {"bounds": {"loss_bound": 0.01 * rank}, "share": {"loss_bound": 1.0}}.items():
        found[name] = _error(options)
    found["mixed"] = _error({"address": "127.0.0.1" if rank == 2 else "0.0.0.0"})
    found["address"] = _error({"address": "192.0.2.1"})
    return found


def _error(options: dict[str, Any]) -> str:
    """The error of a ring with these options."""
    try:
        GroupRing(**options).close()
    except SumwireError as error:
        return f"{type(error).__name__}: {error}"
    return ""
