# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Errors of the lab. The command line prints their message and ends with a non-zero code."""

from __future__ import annotations


class LabError(Exception):
    """An experiment failed; the message says why and where to look."""


class OptionError(LabError, ValueError):
    """An option with a value that the lab cannot run; the message names option, value and rule."""


class MissingToolError(LabError):
    """The machine lacks a program, a module or a right that the experiment needs."""


class ProcessDiedError(LabError):
    """A worker or a switch ended before its work was done; the message contains its log's last lines."""


class DeadlineError(LabError):
    """An experiment, or one step of setting it up, took longer than it may."""
