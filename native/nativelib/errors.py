# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What can go wrong between C text and a loaded library."""


class NativeError(Exception):
    """C code could not be compiled or loaded."""


class NoCompilerError(NativeError):
    """No compiler that fits; the message lists what was tried and why not."""


class CompileError(NativeError):
    """The compiler refused the code; the message has its command and the first lines of its complaint."""


class LoadError(NativeError):
    """The system refused a compiled library; the message names the file and the reason."""
