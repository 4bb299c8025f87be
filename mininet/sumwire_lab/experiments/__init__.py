# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Measurements that are not a training: bias of merged signs, exact ops in trees, contention, overload, failover."""
