# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What runs in a worker's process: data, models, the training loop, and how communication is timed."""
