# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Functions from a flat tensor to the workers' mean: the public names of :mod:`sumwire.training.reductions`."""

from sumwire.training.reductions import (
    thc_through_group,
    through_group,
    through_job,
)

__all__ = [
    "thc_through_group",
    "through_group",
    "through_job",
]
