# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The report as a page: one HTML file that contains its styles, drawings and scripts, and loads nothing else."""
