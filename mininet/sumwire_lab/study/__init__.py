# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Studies: grids of cases that are measured, recorded, compared with bounds and drawn. For the lab and for users."""
