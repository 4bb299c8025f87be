# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the kernel says a process may do."""

from __future__ import annotations

import pwd
from pathlib import Path

NOBODY = pwd.getpwnam("nobody")
_CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapAmb")


def assert_no_rights_left(pid: int) -> None:
    """Every thread is user nobody, of no other group, without capabilities and without a way to new ones."""
    threads = list(Path(f"/proc/{pid}/task").iterdir())
    assert threads
    for thread in threads:
        lines = (thread / "status").read_text().splitlines()
        fields = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
        assert fields["Uid"] == [str(NOBODY.pw_uid)] * 4, thread
        assert fields["Gid"] == [str(NOBODY.pw_gid)] * 4
        assert fields["Groups"] == []
        assert [int(fields[name][0], 16) for name in _CAPABILITIES] == [0] * len(_CAPABILITIES)
        assert fields["NoNewPrivs"] == ["1"]
    limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
    assert [line.split()[4:6] for line in limits if line.startswith("Max core file size")] == [["0", "0"]]
