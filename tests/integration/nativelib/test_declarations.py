# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Functions and structures as C declares them, against what the compiler makes of them."""

from __future__ import annotations

import ctypes
from pathlib import Path

import nativelib
import pytest
from nativelib.declarations import Native, declare

pytestmark = pytest.mark.cc

_SOURCE = """\
#include <stdint.h>
#include <stddef.h>

// struct comment { int never; };
struct inner { double value; uint8_t small; };
struct outer {
  const uint8_t *bytes;  // a pointer
  int number;
  uint64_t many[LENGTH];
  struct inner inside;
  int (*function)(void *of, uint64_t count);
  uint16_t last;
};
struct several { uint32_t first, second; };
#ifdef UNWANTED
struct several { double other; };
#endif
enum way { LEFT, RIGHT };
struct strange { long double value; };

static int hidden(int x) { return x; }
uint64_t sizes(int which) { return which ? offsetof(struct outer, last) : sizeof(struct outer); }
double of_structure(const struct outer *of, int64_t factor) {
  return of->inside.value * (double)factor + (double)of->many[LENGTH - 1] + hidden(0);
}
void write(uint8_t *to, float value,
           uint32_t count) { for (uint32_t i = 0; i < count; i++) to[i] = (uint8_t)value; }
uint8_t *same(uint8_t *of) { return of; }
int right(enum way way, const struct several *of) { return way == RIGHT && of->second == 2; }
int of_strange(struct strange of) { return of.value > 0; }
"""


@pytest.fixture
def native(tmp_path: Path) -> Native:
    source = tmp_path / "declared.c"
    source.write_text(_SOURCE)
    built = nativelib.build("declared", [source], generated={}, includes=[], flags=["-DLENGTH=3"])
    return declare(nativelib.load(built), [source], {"LENGTH": 3})


def test_structures_are_laid_out_as_the_compilers(native: Native) -> None:
    assert ctypes.sizeof(native.outer) == native.sizes(0)
    assert native.outer.last.offset == native.sizes(1)
    assert [name for name, _ in native.outer._fields_] == ["bytes", "number", "many", "inside", "function", "last"]


def test_several_fields_enums_and_what_is_not_defined(native: Native) -> None:
    assert native.right(1, native.several(1, 2))


def test_pointers_to_structures_that_are_not_asked_for_are_addresses(native: Native, tmp_path: Path) -> None:
    of = native.outer(many=(1, 2, 30), inside=native.inner(1.5))
    addressed = declare(native.library, [tmp_path / "declared.c"], {"LENGTH": 3}, structs=["inner"])
    assert addressed.of_structure(ctypes.addressof(of), 4) == 36.0
    assert not hasattr(addressed, "outer")


def test_functions_take_what_they_declare(native: Native) -> None:
    of = native.outer(many=(1, 2, 30), inside=native.inner(1.5))
    assert native.of_structure(of, 4) == 36.0
    memory = (ctypes.c_uint8 * 4)()
    assert native.write(ctypes.addressof(memory), 7.0, 3) is None
    assert list(memory) == [7, 7, 7, 0]
    assert native.same(ctypes.addressof(memory)) == ctypes.addressof(memory)
    with pytest.raises(ctypes.ArgumentError):
        native.of_structure(native.inner(), 1)


@pytest.mark.parametrize("name", ["hidden", "comment", "strange", "of_strange"])
def test_what_it_cannot_declare_is_left_out(native: Native, name: str) -> None:
    assert not hasattr(native, name)
