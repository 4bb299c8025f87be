# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the page tells people who know neither the code nor the papers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

INTRODUCTION: Final = (
    "When several machines (workers) train one neural network together, each computes a gradient from its own part of "
    "the data, and after every step all of them need the mean of these gradients. On slow links, sending them takes "
    "most of the time. Sumwire compresses gradients and has a switch in the network add the packets as they pass, so "
    "that every worker sends its gradient once and gets the sum once.",
    "This page compares that with the usual way, in which workers pass their gradients around in a ring without help "
    "of the network, and with other published ways to compress them. Workers, links and switches are software on one "
    "machine: links are limited to the stated rate, and the ring runs over bridges of the kernel, which cost nothing. "
    "What the numbers say about a hardware switch is what the bytes on the links say, not the processor times.",
)

SYSTEMS: Final[Mapping[str, str]] = {
    "gloo": "Bridge. PyTorch's ring all-reduce of float32 gradients: the baseline, also called S-SGD.",
    "fp16": "Bridge. The same in float16, half the bytes.",
    "powersgd": "Bridge. Power-SGD, PyTorch's own: two thin factors for each matrix, summed one after the other.",
    "topk, top-k": "Bridge. Only the largest values, with their positions; the rest is kept for later steps.",
    "cascade": "Bridge. A ring that compresses to signs anew at every hop.",
    "marsit-ring": "Bridge. Marsit's signs in a ring.",
    "thc": "Switch. THC: 4-bit table indices up, 8-bit sums down.",
    "thc-uniform": "Switch. The same with equal steps between the levels.",
    "sum32": "Switch. Full precision in 32-bit fixed point.",
    "acp": "ACP-SGD: one thin factor for each matrix, P and Q in turn, summed in full precision.",
    "acp-thc": "Switch. ACP-SGD whose factors are compressed by THC.",
    "vote": "Switch. One sign a value up, the majority's sign down.",
    "ef-sign": "Switch. One sign a value and one magnitude; what is left out is kept for later steps.",
    "ssdm": "Switch. Signs drawn at random, so that their mean is the gradient's direction.",
    "marsit, sign": "Switch. Signs of updates, merged at random by the switch to one sign a value.",
    "marsit100": "Switch. The same, with a round in full precision every 100 steps.",
}
