# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which form is used, and what is said about it. Each case in a process of its own: the answer is remembered."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from helpers.children import in_child
from helpers.codec.kernel_cases import encode_twice
from sumwire.codec import kernels


def run(tmp_path: Path, **environment: str) -> tuple[str, list[str]]:
    """(the form, what was logged)"""
    result: tuple[str, list[str]] = in_child(encode_twice, NATIVELIB_CACHE=str(tmp_path), **environment)
    return result


def test_switched_off(tmp_path: Path) -> None:
    form, said = run(tmp_path, SUMWIRE_NATIVE="0")
    assert form == "torch"
    assert said == ["INFO SUMWIRE_NATIVE=0: the codecs use torch, not native kernels"]
    assert not list(tmp_path.iterdir()), "nothing is compiled"


def test_no_compiler(tmp_path: Path) -> None:
    form, said = run(tmp_path, SUMWIRE_NATIVE="1", CC="no-such-compiler")
    assert form == "torch"
    assert len(said) == 1
    assert said[0].startswith("WARNING ") and "no-such-compiler" in said[0]


def test_compiler_that_fails(tmp_path: Path) -> None:
    """It compiles a line, but not the kernels."""
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\ncase "$*" in *thc.c*) echo "disk full" >&2; exit 1;; esac\nexec cc "$@"\n')
    compiler.chmod(0o755)
    form, said = run(tmp_path / "cache", SUMWIRE_NATIVE="1", CC=str(compiler))
    assert form == "torch"
    assert len(said) == 1 and said[0].startswith("WARNING ")


def test_float64_and_other_devices_use_torch() -> None:
    assert kernels.kernels(torch.zeros(1, dtype=torch.float64)) is None
    assert kernels.kernels(torch.zeros(1, device="meta")) is None


@pytest.mark.skipif(kernels.kernels(torch.zeros(1)) is None, reason="needs a C compiler, and SUMWIRE_NATIVE not 0")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_what_the_kernels_read(dtype: torch.dtype) -> None:
    x = torch.arange(10, dtype=dtype)[::2]
    assert kernels.kernels(x) is not None
    values = kernels.float32(x)
    assert values.dtype == torch.float32 and values.is_contiguous() and values.tolist() == [0, 2, 4, 6, 8]
    whole = torch.ones(3)
    assert kernels.float32(whole).data_ptr() == whole.data_ptr(), "no copy of what is right already"
