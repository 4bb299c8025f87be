# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""P4Runtime's messages, `p4.v1` and `p4.config.v1`, under protobuf 3.20 and all later versions. The controller and the
soft switch call :func:`load_messages` before they import one of them.

The modules of the package p4runtime come from an old protoc, and protobuf 4 and later refuse to import them. But each
contains its file's descriptor as bytes, from which any protobuf can make the same messages.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

# Each after those that it needs.
MODULES: Final = ("p4.config.v1.p4types_pb2", "p4.config.v1.p4info_pb2", "p4.v1.p4data_pb2", "p4.v1.p4runtime_pb2")
_LAST_THAT_IMPORTS: Final = 3


def load_messages() -> None:
    """Register replacements for those modules that protobuf would refuse to import. Raises ImportError without
    p4runtime."""
    # Their files need the last two.
    import google.protobuf.any_pb2
    import google.rpc.status_pb2
    from google.protobuf import descriptor_pool

    if int(google.protobuf.__version__.split(".")[0]) <= _LAST_THAT_IMPORTS:
        return
    for name in MODULES:
        file = None if name in sys.modules else descriptor_of(name)
        if file is not None:
            made = messages(name, file, descriptor_pool.Default())  # type: ignore[no-untyped-call]
            made.__spec__ = importlib.util.find_spec(name)
            sys.modules[name] = made
            parent, _, child = name.rpartition(".")
            setattr(sys.modules[parent], child, made)


def descriptor_of(name: str) -> bytes | None:
    """Return the bytes of a file's descriptor, read from the source of its module; None if a newer protoc has made the
    module."""
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    for node in ast.walk(ast.parse(Path(found.origin).read_bytes())):
        if isinstance(node, ast.keyword) and node.arg == "serialized_pb" and isinstance(node.value, ast.Constant):
            value = node.value.value
            return value if isinstance(value, bytes) else None
    return None


def messages(name: str, file: bytes, pool: Any) -> ModuleType:
    """Return a module with a file's messages and enums, built in the way of a current protoc."""
    from google.protobuf.internal import builder

    made = ModuleType(name)
    descriptor = pool.AddSerializedFile(file)
    vars(made)["DESCRIPTOR"] = descriptor
    builder.BuildMessageAndEnumDescriptors(descriptor, vars(made))
    builder.BuildTopDescriptorsAndMessages(descriptor, name, vars(made))
    return made
