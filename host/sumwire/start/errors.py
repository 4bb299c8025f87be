# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Errors of finding and serving a job."""

from __future__ import annotations

from sumwire.errors import UsageError


class ServiceError(UsageError):
    """No job description could be obtained from a service, or none can be served."""


class AbsentServiceError(ServiceError):
    """A service, or its aggregator, is not running yet. It may start later, so asking again may help."""


class NotReadyError(AbsentServiceError):
    """The service is there, and its aggregator is not ready."""


class PlaceError(UsageError):
    """The ranks and the workers of a job do not fit together."""


class ReachError(UsageError):
    """The aggregator and a worker do not reach each other."""


class StartError(UsageError):
    """A program that the start needs has failed."""


class PortTakenError(StartError):
    """Another program has the port of an aggregator's address."""
