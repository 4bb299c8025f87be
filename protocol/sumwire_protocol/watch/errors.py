# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Errors of what is told of a running program."""

from __future__ import annotations


class WatchError(Exception):
    """Metrics cannot be served."""


class MetricsPlaceError(WatchError, ValueError):
    """A text does not say where metrics are to be served."""


class MetricsPortError(WatchError):
    """Metrics cannot be served at that address and port."""


class MetricsPackageError(WatchError):
    """The package prometheus_client is not installed."""
