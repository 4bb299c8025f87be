# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The intermediate form of a v1model program, from which every engine emits code.

It depends neither on the JSON that it was loaded from nor on the language that an engine emits. Names are those of
the program, widths are in bits, and every value is an integer. Semantics are bmv2's: expressions are evaluated with
unbounded precision and wrap when they are stored.
"""

from softswitch.program.ir.code import (
    UNKNOWN_SOURCE as UNKNOWN_SOURCE,
)
from softswitch.program.ir.code import (
    Assign as Assign,
)
from softswitch.program.ir.code import (
    AssignHeader as AssignHeader,
)
from softswitch.program.ir.code import (
    Binary as Binary,
)
from softswitch.program.ir.code import (
    Block as Block,
)
from softswitch.program.ir.code import (
    Cast as Cast,
)
from softswitch.program.ir.code import (
    Const as Const,
)
from softswitch.program.ir.code import (
    Count as Count,
)
from softswitch.program.ir.code import (
    CounterArray as CounterArray,
)
from softswitch.program.ir.code import (
    Digest as Digest,
)
from softswitch.program.ir.code import (
    ExecuteMeter as ExecuteMeter,
)
from softswitch.program.ir.code import (
    Exit as Exit,
)
from softswitch.program.ir.code import (
    Expr as Expr,
)
from softswitch.program.ir.code import (
    Field as Field,
)
from softswitch.program.ir.code import (
    FieldRef as FieldRef,
)
from softswitch.program.ir.code import (
    Hash as Hash,
)
from softswitch.program.ir.code import (
    Header as Header,
)
from softswitch.program.ir.code import (
    If as If,
)
from softswitch.program.ir.code import (
    LogMessage as LogMessage,
)
from softswitch.program.ir.code import (
    Lookahead as Lookahead,
)
from softswitch.program.ir.code import (
    Loop as Loop,
)
from softswitch.program.ir.code import (
    MarkToDrop as MarkToDrop,
)
from softswitch.program.ir.code import (
    Meter as Meter,
)
from softswitch.program.ir.code import (
    Mux as Mux,
)
from softswitch.program.ir.code import (
    Param as Param,
)
from softswitch.program.ir.code import (
    Random as Random,
)
from softswitch.program.ir.code import (
    Register as Register,
)
from softswitch.program.ir.code import (
    RegisterRead as RegisterRead,
)
from softswitch.program.ir.code import (
    RegisterWrite as RegisterWrite,
)
from softswitch.program.ir.code import (
    SetInvalid as SetInvalid,
)
from softswitch.program.ir.code import (
    SetValid as SetValid,
)
from softswitch.program.ir.code import (
    Source as Source,
)
from softswitch.program.ir.code import (
    Statement as Statement,
)
from softswitch.program.ir.code import (
    Truncate as Truncate,
)
from softswitch.program.ir.code import (
    Unary as Unary,
)
from softswitch.program.ir.code import (
    Valid as Valid,
)
from softswitch.program.ir.code import (
    ValueSet as ValueSet,
)
from softswitch.program.ir.code import (
    Varbit as Varbit,
)
from softswitch.program.ir.structure import (
    CLONE_REQUESTED as CLONE_REQUESTED,
)
from softswitch.program.ir.structure import (
    Action as Action,
)
from softswitch.program.ir.structure import (
    Advance as Advance,
)
from softswitch.program.ir.structure import (
    Calculation as Calculation,
)
from softswitch.program.ir.structure import (
    Case as Case,
)
from softswitch.program.ir.structure import (
    Checksum as Checksum,
)
from softswitch.program.ir.structure import (
    Choose as Choose,
)
from softswitch.program.ir.structure import (
    Chunk as Chunk,
)
from softswitch.program.ir.structure import (
    Conditional as Conditional,
)
from softswitch.program.ir.structure import (
    ConstEntry as ConstEntry,
)
from softswitch.program.ir.structure import (
    Extract as Extract,
)
from softswitch.program.ir.structure import (
    ExtractVarbit as ExtractVarbit,
)
from softswitch.program.ir.structure import (
    Key as Key,
)
from softswitch.program.ir.structure import (
    MatchKind as MatchKind,
)
from softswitch.program.ir.structure import (
    Node as Node,
)
from softswitch.program.ir.structure import (
    Parameter as Parameter,
)
from softswitch.program.ir.structure import (
    Parser as Parser,
)
from softswitch.program.ir.structure import (
    ParserOp as ParserOp,
)
from softswitch.program.ir.structure import (
    ParserState as ParserState,
)
from softswitch.program.ir.structure import (
    Passes as Passes,
)
from softswitch.program.ir.structure import (
    Pattern as Pattern,
)
from softswitch.program.ir.structure import (
    Pipeline as Pipeline,
)
from softswitch.program.ir.structure import (
    Program as Program,
)
from softswitch.program.ir.structure import (
    Table as Table,
)
from softswitch.program.ir.structure import (
    Verify as Verify,
)
