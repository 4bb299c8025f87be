# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Grid points in the native kernels, with the bits of :class:`sumwire.codec.thc_torch.GridForm`."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sumwire.codec.fields import Fields
from sumwire.codec.kernels import Blocks, address, float32, threads
from sumwire.codec.layout import BlockGroup
from sumwire.codec.seeds import RoundingStream, SignStream
from sumwire.codec.tables import ThcTable


class NativeGridForm:
    """The arithmetic of one round's parts, for blocks of at most `sumwire.codec.rotation.PASS_VALUES` values."""

    def __init__(self, kernels: ctypes.CDLL, grid: ThcTable, signs: SignStream, rounding: RoundingStream) -> None:
        self._kernels = kernels
        self._granularity = grid.granularity
        self._sign_key = signs.base
        self._rounding_key = rounding.key

    def points(self, x: Tensor, part: tuple[BlockGroup, ...], to_grid: NDArray[np.float32]) -> NDArray[np.uint8]:
        """See GridForm."""
        first, length = part[0].first_value, len(x)
        points = np.empty(sum(group.values for group in part), np.uint8)
        at_points, at_scales = address(points), address(to_grid)
        # The copy is held until the kernels are done.
        values = float32(x[first : first + len(points)])
        for group in part:
            place = group.first_value - first
            self._kernels.codec_grid_points(
                self._blocks(group, length), self._rounding_key, group.first_value,
                values.data_ptr() + 4 * place, min(group.values, length - group.first_value),
                at_scales + 4 * group.first_block, self._granularity, at_points + place,
            )  # fmt: skip
        return points

    def write(
        self, values: NDArray[np.float32], part: tuple[BlockGroup, ...], cells: NDArray[np.float32], target: Tensor
    ) -> None:
        """See GridForm. Leaves the values as they are."""
        first, length = part[0].first_value, len(target)
        at_values, at_cells, at_target = address(values), address(cells), target.data_ptr()
        for group in part:
            self._kernels.codec_grid_return(
                self._blocks(group, length), at_values + 4 * (group.first_value - first),
                at_cells + 4 * group.first_block, at_target + 4 * group.first_value,
                min(group.values, length - group.first_value),
            )  # fmt: skip

    def pack(self, fields: Fields, points: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """See GridForm."""
        self._kernels.codec_fields_pack(
            address(points), len(points), fields.number, fields.bits, address(out), out.strides[0], len(out), threads()
        )

    def values(
        self, fields: Fields, words: NDArray[np.uint8], middle: NDArray[np.float32], shares: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """See GridForm."""
        found = np.empty(len(words) * fields.chunk_values, np.float32)
        self._kernels.codec_fields_values(
            address(words), words.strides[0], fields.number, fields.bits,
            address(middle), address(shares), address(found), len(words), threads(),
        )  # fmt: skip
        return found

    def _blocks(self, group: BlockGroup, tensor_values: int) -> Blocks:
        used = min(threads(), group.blocks)
        return Blocks(self._sign_key, group.first_block, group.blocks, group.block_values, used, tensor_values)
