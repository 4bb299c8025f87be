# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The table of ops: complete, consistent, and the one in the docs."""

from __future__ import annotations

import pytest
from helpers.paths import ROOT
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import BY_CODE, BY_NAME, COUNT_MAX, JUMBO, OPS, Op, as_markdown


def test_every_op_of_the_p4_program_is_in_the_table_once() -> None:
    codes = {name.removeprefix("OP_").lower(): code for name, code in vars(p4).items() if name.startswith("OP_")}
    assert {"none": p4.OP_NONE} | {op.name: op.code for op in OPS} == codes
    assert len(BY_NAME) == len(BY_CODE) == len(OPS)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_a_payload_fits_a_slot(op: Op) -> None:
    # A job's entry has one bit for each op, in 16 bits.
    assert 0 < op.code < 16
    slot_words = p4.JUMBO_WORDS if op is JUMBO else p4.SLOT_WORDS
    assert all(0 < payload.words <= slot_words for payload in (op.up, op.partial, op.down))
    assert op.values * op.value_bits == op.up.words * p4.WORD_BITS
    # bmv2 lets no packet grow by more.
    assert max(op.partial.words, op.down.words) - op.up.words <= 512 // p4.WORD_BYTES
    assert 0 < op.workers_below_max <= op.workers_max <= COUNT_MAX


def test_docs_have_the_table_of_ops() -> None:
    page = (ROOT / "docs" / "wire-format.md").read_text()
    assert as_markdown() in page, "stale: put what `python -m sumwire_protocol` writes into docs/wire-format.md"
