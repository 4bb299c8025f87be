# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The rules for configurations. Pure functions that yield a `Problem` for each broken rule."""
