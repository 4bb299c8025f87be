# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Errors of compiling and loading C."""


class NativeError(Exception):
    """C code could not be compiled or loaded."""


class NoCompilerError(NativeError):
    """There is no suitable compiler. The message lists each one tried and why it does not fit."""


class CompileError(NativeError):
    """The compiler rejected the code; the message has its command and the first lines of its output."""


class LoadError(NativeError):
    """The system could not load a compiled library; the message names the file and the reason."""


class UntrustedError(NativeError):
    """Another user could have written a file or replace it. The message has its owner, its mode and the rule."""
