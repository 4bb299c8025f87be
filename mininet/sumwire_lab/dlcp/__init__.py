# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Experiments with packets that know what they carry; `verify_dlcp.py` runs them all."""
