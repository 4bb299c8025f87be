# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Catching up: a worker whose slots closed without it gets the results from what it or other workers keep."""
