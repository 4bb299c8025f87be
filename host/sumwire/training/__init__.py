# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Ways into a training loop: DDP's communication hook, `all_reduce`, and optimizers that wrap others."""
