# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The commands of bmv2's ``simple_switch_CLI`` for a running soft switch: the door that carries them out, and its
client."""
