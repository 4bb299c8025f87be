# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What both engines know of a P4 program: its intermediate form, how it is loaded, and what it reads and writes."""
