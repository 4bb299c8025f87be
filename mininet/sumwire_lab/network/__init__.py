# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Plans of networks, their construction with Mininet (hosts, links, switches), and the control plane that configures
them."""
