# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: the suites of the page (`make bench`), and those with a separate command."""
