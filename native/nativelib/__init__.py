# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Compiles C where it runs, once, and loads it: the soft switch's programs and the host library's kernels."""

from nativelib.build import build, load
from nativelib.compiler import Compiler, find_compiler
from nativelib.errors import CompileError, LoadError, NativeError, NoCompilerError

__all__ = [
    "CompileError",
    "Compiler",
    "LoadError",
    "NativeError",
    "NoCompilerError",
    "build",
    "find_compiler",
    "load",
]
