# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The base of all programs here: logs, metrics over HTTP, shutdown, privileges, and reading untrusted input."""
