# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Converts YAML text to the model: checks shape and types, and reports all problems in one error."""
