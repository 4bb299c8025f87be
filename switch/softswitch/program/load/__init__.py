# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""From the JSON that p4c emits for bmv2 to the intermediate form."""
