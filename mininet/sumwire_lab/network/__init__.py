# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Plans of networks and how Mininet makes them: hosts, links, switches, and the control plane that sets these up."""
