# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Baselines: methods that Sumwire is compared with, over process groups of torch.distributed."""
