# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Packets other than a training's: load generator, malformed packets, background traffic."""
