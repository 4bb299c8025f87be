# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The version of Sumwire, written down here only: the wheel, `sumwire.__version__` and every `--version` take it."""

__version__ = "0.2.0"
