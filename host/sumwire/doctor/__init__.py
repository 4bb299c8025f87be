# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What stands in the way of a job on this host: `sumwire doctor`."""
