# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Runs that survive real life: the experiments of `make verify-life`, each in namespaces of its own."""
