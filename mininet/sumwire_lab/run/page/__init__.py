# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The report as a page: one HTML file with its styles, drawings and scripts inside, and no address of anything else."""
