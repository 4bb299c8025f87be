# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One run: sets up the network, starts the workers, collects records, writes summary and report."""
