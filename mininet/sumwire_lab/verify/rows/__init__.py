# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checks computed from measured numbers, one module per topic. Pure: nothing here runs an experiment."""
