# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in real life, done on purpose: programs killed or stopped, dead links, lost switches, old packets."""
