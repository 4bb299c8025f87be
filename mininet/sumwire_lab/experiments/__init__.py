# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Experiments other than trainings, such as bias of merged signs, exact ops in trees, contention, overload and
failover."""
