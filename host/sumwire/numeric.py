# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checks whether a value that a program passes in is a number of the required kind. bool and NaN are not numbers."""

from __future__ import annotations

from math import inf
from numbers import Integral, Real
from typing import TypeGuard


def is_whole(value: object, least: int, most: float = inf) -> TypeGuard[int]:
    """Return whether the value is a whole number in least..most."""
    return isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) <= most


def is_number(value: object) -> TypeGuard[float]:
    """Return whether the value is a finite number."""
    return isinstance(value, Real) and not isinstance(value, bool) and -inf < float(value) < inf
