# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The backend's name in torch.distributed."""

from typing import Final

NAME: Final = "sumwire"
