# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What Sumwire's own systems are compared with, over process groups of torch.distributed."""
