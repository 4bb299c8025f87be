# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Large networks in virtual time: by packets, and by flows and rounds."""
