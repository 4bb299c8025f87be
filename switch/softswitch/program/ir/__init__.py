# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The intermediate form of a v1model program, from which every engine emits code.

It depends neither on the JSON that it was loaded from nor on the language that an engine emits. Names are those of
the program, widths are in bits, and every value is an integer. Semantics are bmv2's: expressions are evaluated with
unbounded precision and wrap when they are stored.
"""

from softswitch.program.ir.checksums import Calculation, Checksum, Chunk
from softswitch.program.ir.expressions import (
    Binary,
    Cast,
    Const,
    Expr,
    FieldRef,
    Lookahead,
    Param,
    Ternary,
    Unary,
    Valid,
)
from softswitch.program.ir.parser import (
    Advance,
    Case,
    Choose,
    Extract,
    ExtractVarbit,
    Parser,
    ParserOp,
    ParserState,
    Verify,
)
from softswitch.program.ir.passes import CLONE_REQUESTED, Passes
from softswitch.program.ir.pipeline import (
    Action,
    Conditional,
    ConstEntry,
    Key,
    MatchKind,
    Node,
    Parameter,
    Pattern,
    Pipeline,
    Table,
)
from softswitch.program.ir.program import Program
from softswitch.program.ir.source import UNKNOWN_SOURCE, Source
from softswitch.program.ir.statements import (
    Assign,
    AssignHeader,
    Count,
    Exit,
    Hash,
    If,
    LogMessage,
    MarkToDrop,
    Random,
    RegisterRead,
    RegisterWrite,
    SetInvalid,
    SetValid,
    Statement,
    Truncate,
)
from softswitch.program.ir.storage import CounterArray, Field, Header, Register, Varbit

__all__ = [
    "CLONE_REQUESTED",
    "UNKNOWN_SOURCE",
    "Action",
    "Advance",
    "Assign",
    "AssignHeader",
    "Binary",
    "Calculation",
    "Case",
    "Cast",
    "Checksum",
    "Choose",
    "Chunk",
    "Conditional",
    "Const",
    "ConstEntry",
    "Count",
    "CounterArray",
    "Exit",
    "Expr",
    "Extract",
    "ExtractVarbit",
    "Field",
    "FieldRef",
    "Hash",
    "Header",
    "If",
    "Key",
    "LogMessage",
    "Lookahead",
    "MarkToDrop",
    "MatchKind",
    "Node",
    "Param",
    "Parameter",
    "Parser",
    "ParserOp",
    "ParserState",
    "Passes",
    "Pattern",
    "Pipeline",
    "Program",
    "Random",
    "Register",
    "RegisterRead",
    "RegisterWrite",
    "SetInvalid",
    "SetValid",
    "Source",
    "Statement",
    "Table",
    "Ternary",
    "Truncate",
    "Unary",
    "Valid",
    "Varbit",
    "Verify",
]
