# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Entry points for training loops: DDP's communication hook, `all_reduce`, and optimizers that wrap others."""
