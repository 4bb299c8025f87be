# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Gradient codecs: from tensors to words of packets and back. Codecs use no sockets.

Names are loaded on first use, so that tables and errors can be used without torch.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

_HOMES: Final = {
    "CodecError": "errors",
    "CodecInfo": "base",
    "CountError": "errors",
    "ErrorFeedback": "feedback",
    "FeedbackShapeError": "errors",
    "GradientCodec": "base",
    "Layout": "layout",
    "NormRangeError": "errors",
    "ParameterFeedback": "feedback",
    "StageError": "errors",
    "SumRangeError": "errors",
    "TableError": "errors",
    "ThcCodec": "thc",
    "ThcRound": "thc",
    "ThcTable": "tables",
    "best_granularity": "tables",
    "solve": "tables",
    "uniform": "tables",
}


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)
