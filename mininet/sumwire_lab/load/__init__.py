# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Packets that are not a training's: the load generator, malformed packets, background traffic."""
