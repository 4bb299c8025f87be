# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What is run in the lab instead of the lab's own training: a script, Mininet's prompt, or both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sumwire_lab.errors import OptionError


@dataclass(frozen=True)
class ScriptOptions:
    """`script` runs once on every host, as torchrun would start it, with `arguments`. `cli`: Mininet's prompt, beside
    the script. `keep`: the lab is left standing."""

    script: Path | None = None
    arguments: tuple[str, ...] = ()
    cli: bool = False
    keep: bool = False

    def __post_init__(self) -> None:
        if self.script is not None and not self.script.is_file():
            raise OptionError(f"script={self.script}: there is no such file")
        if self.arguments and self.script is None:
            raise OptionError(f"{' '.join(self.arguments)}: arguments are for a script, name it with --script")

    @property
    def any(self) -> bool:
        """Whether there is something to do besides the lab's own training."""
        return self.script is not None or self.cli or self.keep
