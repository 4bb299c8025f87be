# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Limits for a program and its numbers, so that it cannot use up the machine's memory or time.

The limits are far above what a P4 program for bmv2 needs; docs/softswitch.md lists them.
"""

from __future__ import annotations

from softswitch.errors import ProgramTooLargeError

MAX_SHIFT = 4096  # bits; a longer left shift leaves nothing of any field (2048 bits) once it is wrapped


def full(width: int) -> int:
    """Return the largest number of ``width`` bits: all ones."""
    return (1 << width) - 1


FILE_BYTES = 32 << 20  # the JSON's text
JSON_DEPTH = 256  # arrays and objects inside each other
NAME_LENGTH = 255
TEXT_LENGTH = 4096  # file names, texts of log_msg
OBJECTS = 4096  # of one kind, and items of one list
WIDTH = 2048  # bits of a field, a register's cell, a parameter
VARBIT = 2048  # bits of a varbit field at its longest
CONSTANT_BITS = 4096
VALUE_BITS = 16384  # of any intermediate value of an expression
STATE_BITS = 1 << 18  # of all headers and metadata: the state of one packet is on a thread's stack, twice
PACKET_BYTES = 1 << 16  # of all headers that leave; COLLECTOR_GROWTH in runtime.c
CALCULATION_BITS = 1 << 16  # of what one checksum or hash reads
EXPRESSION_DEPTH = 64
IF_DEPTH = 32
STACK_SIZE = 128  # elements of a header stack
PASSES = 256  # clones, resubmits and recirculations that come from one frame
SESSIONS = 1 << 15
LOOP_BLOCKS = 65536  # blocks between jumps that one run of an action passes, where it has loops
PARSER_STEPS = 16384  # states that one packet passes in a parser with loops
STATEMENTS = 16384  # of all actions, after jumps became branches
TABLE_STATEMENTS = 65536  # an action counts once for every table that has it
PARSER_PATH = 128  # states from the start to the end: they call each other in C
FRAME_BYTES = 48 << 10  # of one C function: with PARSER_PATH of them, less than the 8 MiB of a thread's stack
PATTERNS = 65536  # constant entries of a table
KEY_FIELDS = 64
PARAMETERS = 512  # of one action
CELLS = 1 << 24  # of one register or counter
STATE_BYTES = 1 << 30  # of all registers and counters
TABLE_ENTRIES = 1 << 20
ACTION_SET = 256  # actions of one entry, among which a selector chooses
TABLE_CHOICES = 1 << 20  # actions of all such entries of a table
SET_PATTERNS = 65536  # values with masks of a parser value set; a range is many of them
TABLE_BYTES = 4 << 30  # of all entries that tables can hold
CELL_BYTES = 48  # what a register's cell takes beside its bits, in the engine that takes more
COUNTER_BYTES = 128  # what a counter's cell takes, in the engine that takes more
ENTRY_BYTES = 1024  # what an entry takes beside its key and action data
SOURCE_CHARACTERS = 16 << 20  # of generated C or Python
EMIT_STEPS = 100_000  # expressions visited while code is generated; the committed program takes 7,000


class CodeBudget:
    """Counts the code that an emitter writes. A small program can have much code, because paths and branches
    multiply."""

    def __init__(self) -> None:
        self._characters = 0
        self._steps = 0

    def write(self, text: str) -> None:
        """Count written text against the budget. Raises ProgramTooLargeError."""
        self._characters += len(text)
        if self._characters > SOURCE_CHARACTERS:
            raise ProgramTooLargeError(
                f"the generated code has more than {SOURCE_CHARACTERS} characters; split the P4 program"
            )

    def step(self) -> None:
        """Count a step against the budget. Raises ProgramTooLargeError."""
        self._steps += 1
        if self._steps > EMIT_STEPS:
            raise ProgramTooLargeError(f"the expressions take more than {EMIT_STEPS} steps; split them in P4")
