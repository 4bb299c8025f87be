# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Where the compiled P4 program lies, in a checkout and in an installed package alike.

In a checkout ``p4`` is a link to p4src/build; a wheel contains copies of the files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "p4"
JSON_NAME: Final = "sumwire.json"
P4INFO_NAME: Final = "sumwire.p4info.txtpb"
# What a switch executes, and what a control plane needs to talk to it.
JSON: Final = FOLDER / JSON_NAME
P4INFO: Final = FOLDER / P4INFO_NAME
