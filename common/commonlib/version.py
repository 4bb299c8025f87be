# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The version of Sumwire. It is defined only here: the wheel, `sumwire.__version__` and every `--version` read it."""

__version__ = "0.2.0"
