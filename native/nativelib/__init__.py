# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Compiles C on the machine where it runs, keeps the result, and loads it.

The soft switch's programs and the host library's kernels are built with it.
"""

from nativelib.build import build, load
from nativelib.compiler import Compiler, find_compiler
from nativelib.errors import CompileError, LoadError, NativeError, NoCompilerError, UntrustedError
from nativelib.prebuilt import level as prebuilt_level
from nativelib.trusted import open_file

__all__ = [
    "CompileError",
    "Compiler",
    "LoadError",
    "NativeError",
    "NoCompilerError",
    "UntrustedError",
    "build",
    "find_compiler",
    "load",
    "open_file",
    "prebuilt_level",
]
