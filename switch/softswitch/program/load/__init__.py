# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads the JSON that p4c emits for bmv2 into the intermediate form."""
