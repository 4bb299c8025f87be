# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which form is used, and what is said about it. Each case in a process of its own: the answer is remembered."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
import torch
from helpers.children import in_child
from helpers.codec.kernel_cases import digest, digest_of_a_forked_child, encode_twice, threads_started
from nativelib.compiler import find_compiler
from sumwire.codec import kernels
from sumwire.errors import UsageError

needs_kernels = pytest.mark.skipif(
    kernels.kernels(torch.zeros(1)) is None, reason="needs a C compiler, and SUMWIRE_NATIVE not 0"
)


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
    compiler.write_text('#!/bin/sh\ncase "$*" in *thc_encode.c*) echo "disk full" >&2; exit 1;; esac\nexec cc "$@"\n')
    compiler.chmod(0o755)
    form, said = run(tmp_path / "cache", SUMWIRE_NATIVE="1", CC=str(compiler))
    assert form == "torch"
    assert len(said) == 1 and said[0].startswith("WARNING ")


def test_float64_and_other_devices_use_torch() -> None:
    assert kernels.kernels(torch.zeros(1, dtype=torch.float64)) is None
    assert kernels.kernels(torch.zeros(1, device="meta")) is None


@needs_kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_what_the_kernels_read(dtype: torch.dtype) -> None:
    x = torch.arange(10, dtype=dtype)[::2]
    assert kernels.kernels(x) is not None
    values = kernels.float32(x)
    assert values.dtype == torch.float32 and values.is_contiguous() and values.tolist() == [0, 2, 4, 6, 8]
    whole = torch.ones(3)
    assert kernels.float32(whole).data_ptr() == whole.data_ptr(), "no copy of what is right already"


@needs_kernels
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the options are those of x86-64")
@pytest.mark.parametrize("without", [pytest.param("", marks=pytest.mark.long), "-mno-avx512f", "-mno-avx2"])
@pytest.mark.few(1)
def test_vectors_of_all_widths_give_equal_bits(tmp_path: Path, without: str) -> None:
    compiler = f"{find_compiler().command[0]} {without}"
    form, made = in_child(digest, NATIVELIB_CACHE=str(tmp_path), SUMWIRE_NATIVE="1", CC=compiler)
    assert form == "native"
    assert ("torch", made) == in_child(digest, SUMWIRE_NATIVE="0")


@needs_kernels
def test_a_forked_child_starts_threads_of_its_own() -> None:
    here, there = in_child(digest_of_a_forked_child, SUMWIRE_NATIVE="1")
    assert here == there


@needs_kernels
@pytest.mark.parametrize(("chosen", "started"), [("1", 0), ("3", 2)])
def test_as_many_threads_as_were_chosen(chosen: str, started: int) -> None:
    assert in_child(threads_started, chosen, SUMWIRE_NATIVE="1") == started


@pytest.mark.parametrize(
    ("torch_threads", "cores", "ranks", "wanted"),
    [(1, 64, 1, 1), (2, 2, 1, 1), (4, 4, 1, 2), (16, 16, 1, 4), (16, 16, 4, 2), (16, 16, 16, 1), (2, 16, 1, 2)],
)
def test_usual_threads(torch_threads: int, cores: int, ranks: int, wanted: int) -> None:
    assert kernels._usual_threads(torch_threads, cores, ranks) == wanted


def test_threads_that_were_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kernels.THREADS, "7")
    assert kernels.threads() == 7
    monkeypatch.delenv(kernels.THREADS)
    assert 1 <= kernels.threads() <= kernels.THREADS_USUAL


@pytest.mark.parametrize("chosen", ["0", "65", "-1", "two", ""])
def test_threads_that_cannot_be(monkeypatch: pytest.MonkeyPatch, chosen: str) -> None:
    monkeypatch.setenv(kernels.THREADS, chosen)
    with pytest.raises(UsageError, match=f"SUMWIRE_THREADS={chosen}: must be a number of threads from 1 to 64"):
        kernels.threads()
