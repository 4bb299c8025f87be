# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Measures where Sumwire pays: a grid of all-reduces over size, link rate, system and switch, and a formula for their
time."""
